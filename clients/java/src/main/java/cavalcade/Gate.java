package cavalcade;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.Pipe;

/** A channel that can be read while a flow may send. */
final class Gate implements AutoCloseable {
    private final Pipe pipe = Pipe.open();
    private boolean isOpen;

    Gate() throws IOException {
        pipe.source().configureBlocking(false);
        pipe.sink().configureBlocking(false);
    }

    Pipe.SourceChannel source() {
        return pipe.source();
    }

    /** Makes it readable, or no longer so. */
    synchronized void show(boolean maySend) {
        if (maySend == isOpen) {
            return;
        }
        isOpen = maySend;
        ByteBuffer single = ByteBuffer.allocate(1);
        try {
            if (maySend) {
                pipe.sink().write(single);
            } else {
                pipe.source().read(single);
            }
        } catch (IOException closed) {
            // Nobody waits for it any more.
        }
    }

    @Override
    public void close() {
        try {
            pipe.sink().close();
            pipe.source().close();
        } catch (IOException closed) {
            // It was closed before.
        }
    }
}
