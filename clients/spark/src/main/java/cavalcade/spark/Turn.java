package cavalcade.spark;

/** The orders for what a connection sends: those of its flow. */
interface Turn {
    /** How many of so many bytes may be sent now. */
    int allowance(int wanted);

    /** Nanoseconds after which to ask again where there were none. */
    long delay();

    /** So many were sent. */
    void sent(int bytes);

    /** Whether there is nothing to send. */
    void idle(boolean isIdle);

    /** Whether the kernel carries the orders out. */
    boolean isInKernel();

    /** The flow is over; its connection stays. */
    void close();
}
