package cavalcade.spark;

import io.netty.channel.FileRegion;
import io.netty.util.AbstractReferenceCounted;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;

/**
 * The next bytes of a message that is sent from its beginning on. Ciphers and Netty take it for a message of its own.
 *
 * <p>A message that is a file's goes through the memory of the program here: the system's call from file to socket would not stop
 * where the piece does.
 */
final class Piece extends AbstractReferenceCounted implements FileRegion {
    private final FileRegion whole;
    private final int size;
    private int done;

    Piece(FileRegion whole, int size) {
        this.whole = whole;
        this.size = size;
    }

    @Override
    public long transferTo(WritableByteChannel target, long position) throws IOException {
        if (done == size) {
            return 0;
        }
        long moved = whole.transferTo(new Limited(target, size - done), whole.transferred());
        done += (int) moved;
        return moved;
    }

    /** Takes so many bytes, then none. */
    private static final class Limited implements WritableByteChannel {
        private final WritableByteChannel target;
        private int left;

        Limited(WritableByteChannel target, int left) {
            this.target = target;
            this.left = left;
        }

        @Override
        public int write(ByteBuffer bytes) throws IOException {
            int limit = bytes.limit();
            bytes.limit(Math.min(limit, bytes.position() + left));
            try {
                int moved = target.write(bytes);
                left -= moved;
                return moved;
            } finally {
                bytes.limit(limit);
            }
        }

        @Override
        public boolean isOpen() {
            return target.isOpen();
        }

        @Override
        public void close() throws IOException {
            target.close();
        }
    }

    @Override
    public long position() {
        return 0;
    }

    @Override
    public long count() {
        return size;
    }

    @Override
    public long transferred() {
        return done;
    }

    @Override
    @Deprecated
    public long transfered() {
        return done;
    }

    @Override
    protected void deallocate() {
        // Who cuts a message into pieces releases it.
    }

    @Override
    public FileRegion retain() {
        super.retain();
        return this;
    }

    @Override
    public FileRegion retain(int more) {
        super.retain(more);
        return this;
    }

    @Override
    public FileRegion touch() {
        return this;
    }

    @Override
    public FileRegion touch(Object hint) {
        return this;
    }
}
