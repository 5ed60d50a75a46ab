package cavalcade.spark;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.util.function.Consumer;

/** What cannot be called by its type: what differs between versions of Scala, and what Spark keeps to itself. */
final class Scala {
    private Scala() {}

    /** Calls a method without arguments. */
    static Object call(Object of, String method) {
        try {
            return of.getClass().getMethod(method).invoke(of);
        } catch (InvocationTargetException failed) {
            throw new IllegalStateException(of.getClass().getName() + "." + method + " failed", failed.getCause());
        } catch (ReflectiveOperationException missing) {
            throw new IllegalStateException("this Spark has no " + of.getClass().getName() + "." + method, missing);
        }
    }

    /** Goes through a collection. */
    static void each(Object collection, Consumer<Object> visit) {
        scala.collection.Iterator<?> all = ((scala.collection.Iterable<?>) collection).iterator();
        while (all.hasNext()) {
            visit.accept(all.next());
        }
    }

    /** A field that is not public; fails with its name where there is none. */
    static Field field(Class<?> owner, String name) {
        try {
            Field field = owner.getDeclaredField(name);
            field.setAccessible(true);
            return field;
        } catch (NoSuchFieldException | RuntimeException missing) {
            throw new IllegalStateException("this Spark has no " + owner.getName() + "." + name);
        }
    }

    /** The value of such a field, never null. */
    static <T> T value(Field field, Object of, Class<T> type) {
        try {
            Object value = field.get(of);
            if (type.isInstance(value)) {
                return type.cast(value);
            }
            throw new IllegalStateException(field + " is " + (value == null ? "null" : "a " + value.getClass().getName()));
        } catch (IllegalAccessException refused) {
            throw new IllegalStateException(refused);
        }
    }
}
