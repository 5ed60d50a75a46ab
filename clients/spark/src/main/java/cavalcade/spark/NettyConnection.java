package cavalcade.spark;

import cavalcade.Flow;
import io.netty.channel.Channel;
import io.netty.channel.ChannelException;
import io.netty.channel.ChannelOption;
import io.netty.channel.epoll.EpollChannelOption;
import io.netty.channel.epoll.EpollSocketChannel;
import io.netty.channel.socket.nio.NioChannelOption;
import java.io.IOException;
import java.net.InetSocketAddress;
import jdk.net.ExtendedSocketOptions;

/**
 * A connection of Netty as a session needs it. Where Netty is Linux's own (spark.shuffle.io.mode=EPOLL), TCP takes little more than a
 * piece that it has not sent: what is with TCP when a gate shuts leaves all the same.
 */
final class NettyConnection implements Flow.Connection {
    private final Channel channel;
    private final Runnable changed;

    NettyConnection(Channel channel, Runnable changed) {
        this.channel = channel;
        this.changed = changed;
        try {
            if (channel instanceof EpollSocketChannel socket) {
                socket.config().setTcpNotSentLowAt(Gate.PIECE);
            }
        } catch (RuntimeException | LinkageError without) {
            // Another Netty, or a kernel that has no such bound.
        }
    }

    @Override
    public InetSocketAddress local() {
        return (InetSocketAddress) channel.localAddress();
    }

    @Override
    public InetSocketAddress remote() {
        return (InetSocketAddress) channel.remoteAddress();
    }

    @Override
    public void changed() {
        changed.run();
    }

    @Override
    public int mark() throws IOException {
        try {
            Integer mark = channel.config().getOption(ChannelOption.IP_TOS);
            return mark == null ? 0 : mark;
        } catch (ChannelException closed) {
            throw new IOException(closed);
        }
    }

    @Override
    public void mark(int mark) throws IOException {
        set(ChannelOption.IP_TOS, mark);
    }

    @Override
    public void keepIdle(int seconds) throws IOException {
        try {
            set(channel instanceof EpollSocketChannel ? EpollChannelOption.TCP_KEEPIDLE
                : NioChannelOption.of(ExtendedSocketOptions.TCP_KEEPIDLE), seconds);
        } catch (LinkageError without) {
            throw new IOException(without);
        }
    }

    private void set(ChannelOption<Integer> option, int value) throws IOException {
        try {
            channel.config().setOption(option, value);
        } catch (ChannelException | IllegalArgumentException refused) {
            throw new IOException(refused);
        }
    }
}
