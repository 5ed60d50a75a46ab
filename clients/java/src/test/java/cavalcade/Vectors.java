package cavalcade;

import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

/** The bytes of this library against those of the Rust crate {@code protocol}: {@code Vectors FILE}, the file clients/vectors.txt. */
public final class Vectors {
    private static final CoflowKey KEY = new CoflowKey(1_000, 2, 1_300);
    private static final Wire.Facts FACTS =
            new Wire.Facts(1_700_000_000_000_000_000L, 1_700_000_001_000_000_000L, 1L << 40, true, 3, "sort-7");

    private Vectors() {}

    public static void main(String[] arguments) throws IOException {
        Map<String, String> said = said();
        int checked = 0;
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split("\t");
            boolean isClient = parts[0].equals("client");
            String found = isClient ? said.get(parts[1]) : shown(HexFormat.of().parseHex(parts[2]));
            String expected = isClient ? parts[2] : parts[1];
            if (found != null && !found.equals(expected)) {
                throw new IllegalStateException(parts[1] + ": expected " + expected + ", found " + found);
            }
            checked += found == null ? 0 : 1;
        }
        System.out.println(checked);
    }

    /** What a client says, as far as it can be brought to say what stands in the file. */
    private static Map<String, String> said() throws IOException {
        Client client = new Client(-1, flow -> {});
        Map<String, String> said = new HashMap<>();
        client.handleConnected();
        said.put("hello", last(client));
        client.handleMessage(1, new Wire.Welcome(1, 1));
        client.register(1, new Registration());
        said.put("register", last(client));
        InetSocketAddress near = new InetSocketAddress(InetAddress.getByName("10.0.0.1"), 40_000);
        InetSocketAddress far = new InetSocketAddress(InetAddress.getByName("10.0.0.2"), 7_337);
        client.open(new CoflowKey(1, 0, 1), near, far, null);
        client.takeMessages();
        client.open(KEY, near, far, null);
        List<byte[]> both = client.takeMessages();
        said.put("join", HexFormat.of().formatHex(both.get(0)));
        said.put("open", HexFormat.of().formatHex(both.get(1)));
        client.grant(KEY, 1_001);
        said.put("grant", last(client));
        client.unregister(KEY);
        said.put("unregister", last(client));
        return said;
    }

    private static String last(Client client) {
        List<byte[]> said = client.takeMessages();
        return HexFormat.of().formatHex(said.get(said.size() - 1));
    }

    private static String shown(byte[] frame) throws IOException {
        StringBuilder text = new StringBuilder();
        try {
            Wire.listen(new DataInputStream(new ByteArrayInputStream(frame)), message -> text.append(shown(message)));
        } catch (EOFException end) {
            // One message is all there is.
        }
        return text.toString();
    }

    private static String shown(Wire.Message message) {
        if (message instanceof Wire.Welcome welcome) {
            return "welcome " + welcome.period() + " " + welcome.lease();
        } else if (message instanceof Wire.Registered registered) {
            String facts = registered.facts().equals(FACTS) ? "" : " with other facts";
            return "registered " + registered.request() + " " + registered.key() + facts;
        } else if (message instanceof Wire.Direct direct) {
            Directive directive = direct.directive();
            String gate = directive.gate().name().toLowerCase(java.util.Locale.ROOT);
            String rate = directive.gate() == Directive.Gate.PACED ? " " + directive.rate() : "";
            String trafficClass = directive.trafficClass() == null ? "none" : directive.trafficClass().toString();
            return "direct " + direct.flow() + " " + gate + rate + " " + trafficClass;
        } else if (message instanceof Wire.Refused refused) {
            return "refused " + refused;
        }
        return "alive";
    }
}
