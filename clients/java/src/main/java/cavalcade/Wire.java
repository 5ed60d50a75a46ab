package cavalcade;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.function.Consumer;

/**
 * The byte format between a client and the agent: a frame is four bytes of length, little-endian, then one message.
 *
 * <p>Numbers are little-endian base-128 varints in as few bytes as they need; what may be missing begins with 0 or 1; a
 * message begins with the number of its kind. The Rust crate {@code protocol} is the definition.
 */
final class Wire {
    static final int PROTOCOL = 4;
    private static final int MAX_FRAME = 2 << 20;
    private static final String[] LIMITS = {"connections", "coflows", "flows", "messages", "bytes"};

    private Wire() {}

    /** What was said of a coflow at its registration; times in nanoseconds since 1970. */
    record Facts(long arrival, Long deadline, Long size, boolean background, long weight, String name) {}

    /** What an agent says. */
    sealed interface Message permits Welcome, Registered, Direct, Alive, Refused {}

    record Welcome(long period, long lease) implements Message {}

    record Registered(int request, CoflowKey key, Facts facts) implements Message {}

    record Direct(int flow, Directive directive) implements Message {}

    record Alive() implements Message {}

    /** What was refused, and why; the number of a registration, null where something else was refused. */
    record Refused(String subject, String reason, Integer request, boolean isConnection) implements Message {
        @Override
        public String toString() {
            return subject + ": " + reason;
        }
    }

    /** Fields into bytes. */
    static final class Writer {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        Writer(int kind) {
            bytes.write(new byte[4], 0, 4);
            number(kind);
        }

        /** An unsigned number. */
        Writer number(long value) {
            while (Long.compareUnsigned(value, 0x80) >= 0) {
                bytes.write((int) (value & 0x7f | 0x80));
                value >>>= 7;
            }
            bytes.write((int) value);
            return this;
        }

        /** An unsigned number of 32 bits. */
        Writer count(int value) {
            return number(Integer.toUnsignedLong(value));
        }

        Writer flag(boolean value) {
            bytes.write(value ? 1 : 0);
            return this;
        }

        Writer optional(Long value) {
            flag(value != null);
            return value == null ? this : number(value);
        }

        Writer name(String name) {
            flag(name != null);
            if (name != null) {
                byte[] ascii = name.getBytes(StandardCharsets.US_ASCII);
                number(ascii.length);
                bytes.writeBytes(ascii);
            }
            return this;
        }

        Writer key(CoflowKey key) {
            return number(key.task()).number(key.stage()).number(key.serial() - key.task());
        }

        Writer facts(Facts facts) {
            flag(facts != null);
            if (facts != null) {
                number(facts.arrival).optional(facts.deadline).optional(facts.size);
                flag(facts.background).number(facts.weight).name(facts.name);
            }
            return this;
        }

        Writer address(InetSocketAddress address) {
            byte[] ip = address.getAddress().getAddress();
            bytes.write(ip.length == 4 ? 4 : 6);
            bytes.writeBytes(ip);
            bytes.write(address.getPort());
            bytes.write(address.getPort() >> 8);
            return this;
        }

        byte[] frame() {
            byte[] frame = bytes.toByteArray();
            int length = frame.length - 4;
            for (int place = 0; place < 4; place++) {
                frame[place] = (byte) (length >> 8 * place);
            }
            return frame;
        }
    }

    /** Fields out of bytes. */
    private static final class Reader {
        private final byte[] bytes;
        private int at;

        Reader(byte[] bytes) {
            this.bytes = bytes;
        }

        int single() throws IOException {
            if (at >= bytes.length) {
                throw new IOException("the message is cut off");
            }
            return bytes[at++] & 0xff;
        }

        long number() throws IOException {
            long value = 0;
            for (int shift = 0; shift < 64; shift += 7) {
                int next = single();
                long part = next & 0x7f;
                if (part << shift >>> shift != part || next == 0 && shift > 0) {
                    break;
                }
                value |= part << shift;
                if (next < 0x80) {
                    return value;
                }
            }
            throw new IOException("a number is too long");
        }

        boolean flag() throws IOException {
            int next = single();
            if (next > 1) {
                throw new IOException("expected 0 or 1");
            }
            return next == 1;
        }

        Long optional() throws IOException {
            return flag() ? Long.valueOf(number()) : null;
        }

        String name() throws IOException {
            if (!flag()) {
                return null;
            }
            StringBuilder name = new StringBuilder();
            for (long left = number(); left != 0; left--) {
                name.append((char) single());
            }
            if (!Registration.isName(name.toString())) {
                throw new IOException("expected the name of a coflow");
            }
            return name.toString();
        }

        CoflowKey key() throws IOException {
            long task = number();
            long stage = number();
            if (stage < 0 || stage > CoflowKey.MOST_STAGE) {
                throw new IOException("expected the stage of a coflow");
            }
            return new CoflowKey(task, (int) stage, task + number());
        }

        Facts facts() throws IOException {
            return new Facts(number(), optional(), optional(), flag(), number(), name());
        }

        Directive directive() throws IOException {
            int kind = (int) number();
            if (kind > 2) {
                throw new IOException("there is no gate of kind " + kind);
            }
            Directive.Gate gate = Directive.Gate.values()[kind];
            long rate = gate == Directive.Gate.PACED ? number() : 0;
            Long trafficClass = optional();
            return new Directive(gate, rate, trafficClass == null ? null : trafficClass.intValue());
        }

        Refused refused() throws IOException {
            int kind = (int) number();
            switch (kind) {
                case 0:
                    return new Refused("the connection", reason(), null, true);
                case 1:
                    int request = (int) number();
                    return new Refused("registration " + request, reason(), request, false);
                case 2:
                    return new Refused("coflow " + key(), reason(), null, false);
                case 3:
                    return new Refused("flow " + number(), reason(), null, false);
                default:
                    throw new IOException("there is no subject of a refusal of kind " + kind);
            }
        }

        private String reason() throws IOException {
            int kind = (int) number();
            return switch (kind) {
                case 0 -> "the agent speaks version " + number() + " of the protocol: install the same release on both";
                case 1 -> "it belongs to another user, who may grant it, or is older than it can be";
                case 2 -> "there is a flow of that number already";
                case 3 -> "it was said before the hello, or the hello came twice";
                case 4 -> limit((int) number(), number());
                default -> throw new IOException("there is no refusal of kind " + kind);
            };
        }

        private static String limit(int kind, long most) throws IOException {
            if (kind < 0 || kind >= LIMITS.length) {
                throw new IOException("there is no limit of kind " + kind);
            }
            String span = LIMITS[kind].equals("messages") ? " a second" : "";
            return "one user may have " + most + " " + LIMITS[kind] + " on this host" + span
                    + ": the agent's operator set that, and --user-budget " + LIMITS[kind] + "=NUMBER raises it";
        }

        void end() throws IOException {
            if (at != bytes.length) {
                throw new IOException("bytes follow the message");
            }
        }
    }

    /** Hands on every message that arrives, until the connection ends. */
    static void listen(DataInputStream in, Consumer<Message> hear) throws IOException {
        while (true) {
            int length = Integer.reverseBytes(in.readInt());
            if (length < 0 || length > MAX_FRAME) {
                throw new IOException("a frame of " + length + " bytes: the other side is no agent");
            }
            hear.accept(decode(in.readNBytes(length)));
        }
    }

    private static Message decode(byte[] bytes) throws IOException {
        Reader reader = new Reader(bytes);
        Message message = read(reader);
        reader.end();
        return message;
    }

    private static Message read(Reader reader) throws IOException {
        int kind = (int) reader.number();
        switch (kind) {
            case 0:
                reader.number();
                reader.number();
                return new Welcome(reader.number(), reader.number());
            case 1:
                return new Registered((int) reader.number(), reader.key(), reader.facts());
            case 2:
                return new Direct((int) reader.number(), reader.directive());
            case 3:
                return new Alive();
            case 4:
                return reader.refused();
            default:
                throw new IOException("an agent says nothing of kind " + kind);
        }
    }
}
