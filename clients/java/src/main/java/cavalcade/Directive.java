package cavalcade;

/**
 * How a flow is to be sent: its gate, its rate in bits per second where it is paced, and the class for its packets, 0 first,
 * which is null where no decision holds.
 */
public record Directive(Gate gate, long rate, Integer trafficClass) {
    /** Whether a flow may send. */
    public enum Gate {
        /** It may not. */
        OFF,
        /** As fast as TCP goes. */
        OPEN,
        /** At most at the rate. */
        PACED
    }

    /** Plain TCP: the directive of a flow without a decision. */
    public static final Directive PLAIN = new Directive(Gate.OPEN, 0, null);
}
