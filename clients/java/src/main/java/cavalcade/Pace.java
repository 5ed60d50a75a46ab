package cavalcade;

/** When the next piece of a paced flow is due: Java has no word for SO_MAX_PACING_RATE, so writers hold back by themselves. */
final class Pace {
    /** Bytes written at once. */
    static final int PIECE = 256 << 10;
    /** A paced flow is written in pieces of so many milliseconds. */
    private static final long PACED_MS = 4;
    private static final int PACKET = 1_448;

    private long due = System.nanoTime();

    /** How many of {@code length} bytes to write at once. */
    static int piece(Directive directive, int length) {
        int piece = Math.min(length, PIECE);
        boolean isPaced = directive.gate() == Directive.Gate.PACED;
        return isPaced ? (int) Math.min(piece, Math.max(PACKET, directive.rate() / 8_000 * PACED_MS)) : piece;
    }

    /** Nanoseconds until the next piece is due; none for a flow that is not paced. */
    long left(Directive directive) {
        return directive.gate() == Directive.Gate.PACED ? Math.max(due - System.nanoTime(), 0) : 0;
    }

    /** So many bytes have been written. */
    void wrote(Directive directive, int length) {
        if (directive.gate() == Directive.Gate.PACED) {
            long now = System.nanoTime();
            // What was not used is lost, but for one piece.
            long begin = Math.max(due - now, -PACED_MS * 1_000_000) + now;
            due = begin + (long) (length * 8e9 / Math.max(directive.rate(), 1));
        }
    }
}
