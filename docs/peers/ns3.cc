// Runs a list of flows over DCTCP in ns-3, on the networks of docs/peers.md.
//
//   ns3 FABRIC LIST [in-turns]
//
// FABRIC is star:HOSTS or leafspine:LEAVES,SPINES,HOSTS; LIST has a line `id source destination bytes start_ns spine` for each
// flow. Standard output has a line `id established_ns completed_ns` for each: the time from the call of connect() to the
// connection, and to the receiver's last byte.
//
// Hosts have one address for each spine, and switches route by the receiver's address: so a flow and its acknowledgements cross
// the spine that the list says, and both simulators place flows alike.
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <vector>

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace {

constexpr uint32_t kPayload = 1460;
constexpr uint32_t kMarking = 65;   // packets, as in the paper for 10 Gbps
constexpr uint32_t kBuffer = 240;   // packets

struct Fabric {
  uint32_t leaves = 1, spines = 0, hosts = 0;
  uint32_t Planes() const { return std::max(1u, spines); }
  uint32_t Ports() const { return leaves * hosts; }
};

struct FlowOf {
  uint32_t id, src, dst, spine;
  uint64_t bytes, start;
  uint64_t sent = 0, received = 0, established = 0;
  bool is_complete = false;
  Ptr<Socket> socket;
};

// 10.plane.(host >> 8).(host & 255), hosts from 1.
Ipv4Address AddressOf(uint32_t host, uint32_t plane) {
  return Ipv4Address((10u << 24) | (plane << 16) | (host + 1));
}

void Configure() {
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpDctcp::GetTypeId()));
  // A switch that marks drops what cannot be marked: ns-3 sends SYNs so, and would wait 3 s.
  Config::SetDefault("ns3::TcpSocket::ConnTimeout", TimeValue(MilliSeconds(1)));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(kPayload));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
  // More than any window here needs; it bounds what waits at a host that takes turns.
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 20));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(2)));
  Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(1)));
  Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
  Config::SetDefault("ns3::RedQueueDisc::UseEcn", BooleanValue(true));
  Config::SetDefault("ns3::RedQueueDisc::UseHardDrop", BooleanValue(false));
  Config::SetDefault("ns3::RedQueueDisc::MeanPktSize", UintegerValue(1500));
  Config::SetDefault("ns3::RedQueueDisc::Gentle", BooleanValue(false));
  Config::SetDefault("ns3::RedQueueDisc::QW", DoubleValue(1));
  Config::SetDefault("ns3::RedQueueDisc::MinTh", DoubleValue(kMarking));
  Config::SetDefault("ns3::RedQueueDisc::MaxTh", DoubleValue(kMarking));
  Config::SetDefault("ns3::RedQueueDisc::MaxSize", QueueSizeValue(QueueSize(PACKETS, kBuffer)));
}

// What a host does with packets that wait for its link.
enum class Sending {
  kInOrder,  // First come, first served, marked like a switch's. ns-3 has nothing like TCP small queues: an unmarked queue
             // would hold the windows of whole flows.
  kInTurns,  // Flows and acknowledgements take turns, and nothing is marked: as Linux's fq, and Cavalcade's hosts.
};

NetDeviceContainer Cable(Ptr<Node> one, Ptr<Node> other, const char* rate, Sending sending) {
  PointToPointHelper cable;
  cable.SetDeviceAttribute("DataRate", StringValue(rate));
  cable.SetChannelAttribute("Delay", StringValue("1us"));
  cable.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1p"));
  NetDeviceContainer ends = cable.Install(one, other);
  TrafficControlHelper marking, sharing;
  marking.SetRootQueueDisc("ns3::RedQueueDisc", "LinkBandwidth", StringValue(rate), "LinkDelay", StringValue("1us"));
  // A target that is never reached: what is wanted of it is the turns that flows take.
  sharing.SetRootQueueDisc("ns3::FqCoDelQueueDisc", "MaxSize", StringValue("1000000p"), "Flows", UintegerValue(65536),
                           "Target", StringValue("1000s"), "Interval", StringValue("1000s"));
  (sending == Sending::kInTurns ? sharing : marking).Install(ends.Get(0));
  marking.Install(ends.Get(1));
  return ends;
}

// Gives a device of a switch an address of its own, which nothing is sent to.
uint32_t Unnumbered(Ptr<Node> node, Ptr<NetDevice> device) {
  static uint32_t next = (172u << 24) | (16u << 16);
  Ptr<Ipv4> ip = node->GetObject<Ipv4>();
  const uint32_t interface = ip->AddInterface(device);
  ip->AddAddress(interface, Ipv4InterfaceAddress(Ipv4Address(++next), Ipv4Mask::GetOnes()));
  ip->SetUp(interface);
  return interface;
}

NodeContainer Build(const Fabric& fabric, Sending sending) {
  NodeContainer hosts(fabric.Ports()), leaves(fabric.leaves), spines(fabric.spines);
  InternetStackHelper stack;
  Ipv4StaticRoutingHelper routing;
  stack.SetRoutingHelper(routing);
  stack.SetIpv6StackInstall(false);
  for (const NodeContainer& nodes : {hosts, leaves, spines}) {
    stack.Install(nodes);
  }
  auto route = [&](Ptr<Node> node, uint32_t host, uint32_t plane, uint32_t interface) {
    routing.GetStaticRouting(node->GetObject<Ipv4>())->AddHostRouteTo(AddressOf(host, plane), interface);
  };
  for (uint32_t host = 0; host < fabric.Ports(); host++) {
    Ptr<Node> leaf = leaves.Get(host / fabric.hosts);
    NetDeviceContainer ends = Cable(hosts.Get(host), leaf, "10Gbps", sending);
    Ptr<Ipv4> ip = hosts.Get(host)->GetObject<Ipv4>();
    const uint32_t up = ip->AddInterface(ends.Get(0));
    for (uint32_t plane = 0; plane < fabric.Planes(); plane++) {
      ip->AddAddress(up, Ipv4InterfaceAddress(AddressOf(host, plane), Ipv4Mask::GetOnes()));
    }
    ip->SetUp(up);
    routing.GetStaticRouting(ip)->AddNetworkRouteTo(Ipv4Address("10.0.0.0"), Ipv4Mask("255.0.0.0"), up);
    const uint32_t down = Unnumbered(leaf, ends.Get(1));
    for (uint32_t plane = 0; plane < fabric.Planes(); plane++) {
      route(leaf, host, plane, down);
    }
  }
  for (uint32_t leaf = 0; leaf < fabric.leaves; leaf++) {
    for (uint32_t spine = 0; spine < fabric.spines; spine++) {
      NetDeviceContainer ends = Cable(leaves.Get(leaf), spines.Get(spine), "40Gbps", Sending::kInOrder);
      const uint32_t up = Unnumbered(leaves.Get(leaf), ends.Get(0));
      const uint32_t down = Unnumbered(spines.Get(spine), ends.Get(1));
      for (uint32_t host = 0; host < fabric.Ports(); host++) {
        if (host / fabric.hosts == leaf) {
          route(spines.Get(spine), host, spine, down);
        } else {
          route(leaves.Get(leaf), host, spine, up);
        }
      }
    }
  }
  return hosts;
}

// Keeps the socket's buffer full until all is handed over.
void Fill(FlowOf* flow, Ptr<Socket> socket, uint32_t) {
  while (flow->sent < flow->bytes) {
    const uint64_t most = std::min<uint64_t>(flow->bytes - flow->sent, socket->GetTxAvailable());
    const uint32_t whole = most == flow->bytes - flow->sent ? most : most / kPayload * kPayload;
    if (whole == 0 || socket->Send(Create<Packet>(whole)) < 0) {
      return;
    }
    flow->sent += whole;
  }
}

void Receive(FlowOf* flow, Ptr<Socket> socket) {
  while (Ptr<Packet> packet = socket->Recv()) {
    flow->received += packet->GetSize();
  }
  // A duplicate that comes later calls it again.
  if (flow->received == flow->bytes && !flow->is_complete) {
    flow->is_complete = true;
    std::printf("%u %lu %lu\n", flow->id, flow->established, Simulator::Now().GetNanoSeconds() - flow->start);
  }
}

void Start(FlowOf* flow, Ptr<Node> from) {
  Ptr<Socket> socket = flow->socket = Socket::CreateSocket(from, TcpSocketFactory::GetTypeId());
  socket->Bind(InetSocketAddress(AddressOf(flow->src, flow->spine), 0));
  auto connected = [flow](Ptr<Socket> socket) {
    flow->established = Simulator::Now().GetNanoSeconds() - flow->start;
    Fill(flow, socket, 0);
  };
  socket->SetConnectCallback(Callback<void, Ptr<Socket>>(connected), MakeNullCallback<void, Ptr<Socket>>());
  socket->SetSendCallback(MakeBoundCallback(&Fill, flow));
  socket->Connect(InetSocketAddress(AddressOf(flow->dst, flow->spine), 1024 + flow->id));
}

void Listen(FlowOf* flow, Ptr<Node> at) {
  Ptr<Socket> listener = Socket::CreateSocket(at, TcpSocketFactory::GetTypeId());
  listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), 1024 + flow->id));
  listener->Listen();
  auto accepted = [flow](Ptr<Socket> socket, const Address&) {
    socket->SetRecvCallback(MakeBoundCallback(&Receive, flow));
  };
  listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                              Callback<void, Ptr<Socket>, const Address&>(accepted));
}

Fabric Parse(const std::string& text) {
  Fabric fabric;
  if (std::sscanf(text.c_str(), "star:%u", &fabric.hosts) != 1 &&
      std::sscanf(text.c_str(), "leafspine:%u,%u,%u", &fabric.leaves, &fabric.spines, &fabric.hosts) != 3) {
    NS_FATAL_ERROR("not a fabric: " << text << "; star:HOSTS or leafspine:LEAVES,SPINES,HOSTS");
  }
  return fabric;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s FABRIC LIST [in-turns]\n", argv[0]);
    return 2;
  }
  Configure();
  const Sending sending = argc > 3 ? Sending::kInTurns : Sending::kInOrder;
  const Fabric fabric = Parse(argv[1]);
  std::ifstream list(argv[2]);
  std::vector<std::unique_ptr<FlowOf>> flows;
  for (std::string line; std::getline(list, line);) {
    auto flow = std::make_unique<FlowOf>();
    std::istringstream fields(line);
    if (fields >> flow->id >> flow->src >> flow->dst >> flow->bytes >> flow->start >> flow->spine) {
      flows.push_back(std::move(flow));
    } else {
      NS_FATAL_ERROR(argv[2] << ": not `id source destination bytes start_ns spine`: " << line);
    }
  }
  NodeContainer hosts = Build(fabric, sending);
  for (auto& flow : flows) {
    Listen(flow.get(), hosts.Get(flow->dst));
    Simulator::Schedule(NanoSeconds(flow->start), &Start, flow.get(), hosts.Get(flow->src));
  }
  Simulator::Stop(Seconds(60));
  Simulator::Run();
  Simulator::Destroy();
}
