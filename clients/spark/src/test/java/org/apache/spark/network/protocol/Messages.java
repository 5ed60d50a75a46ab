package org.apache.spark.network.protocol;

import io.netty.buffer.Unpooled;
import io.netty.channel.FileRegion;
import java.nio.ByteBuffer;
import java.util.Arrays;
import org.apache.spark.network.buffer.NioManagedBuffer;

/** Messages as Spark's encoder makes them, whose class it keeps to itself. */
public final class Messages {
    private Messages() {}

    /** One of so many equal bytes behind a header of eight, the last of which is the same. */
    public static FileRegion message(int length, int value) throws java.io.IOException {
        byte[] bytes = new byte[length];
        Arrays.fill(bytes, (byte) value);
        NioManagedBuffer body = new NioManagedBuffer(ByteBuffer.wrap(bytes));
        return new MessageWithHeader(body, Unpooled.wrappedBuffer(new byte[] {9, 9, 9, 9, 9, 9, 9, (byte) value}),
            body.convertToNetty(), length);
    }
}
