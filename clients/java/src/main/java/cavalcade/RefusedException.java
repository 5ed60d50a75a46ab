package cavalcade;

/** The agent refused a registration. The message says which limit was reached, who set it and how to raise it. */
public final class RefusedException extends Exception {
    private static final long serialVersionUID = 1;

    RefusedException(String message) {
        super(message);
    }
}
