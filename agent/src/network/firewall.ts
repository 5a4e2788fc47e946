import { databasePorts, parseAddress } from "@svc/proto";
import { isLoopback } from "./loopback.ts";

/** Interface names of project bridges begin with this, so one rule set covers them all. */
export const bridgePrefix = "svc";

/** What a tenant's packet must never reach: private and link-local ranges, the metadata services of clouds, multicast. */
const closedRanges = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "168.63.129.16/32",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "224.0.0.0/3",
];

const reject = "-j REJECT --reject-with icmp-port-unreachable";

export interface Firewall {
  /** Input of `iptables-restore --noflush`: the chains, whole. */
  chains: string;
  /** Rule specifications that lead into them: parent chain first, then the match. */
  jumps: readonly (readonly string[])[];
}

/**
 * The one way from containers to this machine: its database proxy, at the address of their own bridge and at no other. Taken
 * here and not left to whatever rules the machine has besides, which may know nothing of bridges.
 */
const databases = `-i ${bridgePrefix}+ -p tcp -m multiport --dports ${Object.values(databasePorts).join(",")} -m addrtype --dst-type LOCAL --limit-iface-in -j ACCEPT`;

/**
 * Rules that keep containers to themselves: no new connection to the host but to its database proxy, to private ranges or
 * to another network, while answers to published ports, traffic inside one project's bridge, name resolution and the
 * internet stay open. Nor does anybody begin to speak to them but where they are published: an engine before 28 lets in a
 * neighbour of the machine who sends packets for a container, or for a port that is published on loopback. The same for every agent of a machine, so several of them may write it.
 *
 * @param nameservers IPv4 addresses of the host's resolvers: lookups are sent from the container's own network
 * @param buildBridge interface of build steps; null to leave it alone
 */
export function renderFirewall(nameservers: readonly string[], buildBridge: string | null): Firewall {
  const established = "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN";
  const resolving = nameservers.flatMap((address) =>
    ["udp", "tcp"].map((protocol) => `-d ${address}/32 -p ${protocol} --dport 53 -j RETURN`),
  );
  const lines = [
    "*filter",
    ":SVC-FORWARD - [0:0]",
    ":SVC-INPUT - [0:0]",
    ":SVC-ENTER - [0:0]",
    `-A SVC-FORWARD ${established}`,
    // Steps of all projects share one bridge, so there the ends of a bridged packet are strangers. Frames of any kind are
    // stopped between its ports; these rules are there before a port is.
    ...(buildBridge === null ? [] : [`-A SVC-FORWARD -i ${buildBridge} -m physdev --physdev-is-bridged ${reject}`]),
    // Bridged, not routed: both ends are on the same project network.
    "-A SVC-FORWARD -m physdev --physdev-is-bridged -j RETURN",
    ...resolving.map((rule) => `-A SVC-FORWARD ${rule}`),
    ...closedRanges.map((range) => `-A SVC-FORWARD -d ${range} ${reject}`),
    `-A SVC-INPUT ${established}`,
    `-A SVC-INPUT ${databases}`,
    `-A SVC-INPUT ${reject}`,
    // To containers from elsewhere: as answers, within one network, and at a port of the node's own address.
    `-A SVC-ENTER ${established}`,
    "-A SVC-ENTER -m physdev --physdev-is-bridged -j RETURN",
    ...["--ctstate DNAT --ctorigdst 127.0.0.0/8", "! --ctstate DNAT"].map(
      (match) => `-A SVC-ENTER -m conntrack ${match} -j DROP`,
    ),
    "COMMIT",
  ];
  const interfaces = [`${bridgePrefix}+`, ...(buildBridge === null ? [] : [buildBridge])];
  return {
    chains: `${lines.join("\n")}\n`,
    jumps: [
      ...interfaces.flatMap((name) => [
        ["DOCKER-USER", "-i", name, "-j", "SVC-FORWARD"],
        ["INPUT", "-i", name, "-j", "SVC-INPUT"],
      ]),
      ["DOCKER-USER", "-o", `${bridgePrefix}+`, "-j", "SVC-ENTER"],
    ],
  };
}

/** An address of one link names that behind a percent sign, which rules have no use for. */
const withoutZone = (address: string): string => address.replace(/%.*$/, "");

/** The nameservers of a resolv.conf that are elsewhere: what a container finds on loopback the engine replaces. */
export function parseNameservers(resolvConf: string, family: 4 | 6): string[] {
  const found = [...resolvConf.matchAll(/^nameserver\s+(\S+)\s*$/gm)].map((match) => withoutZone(match[1] ?? ""));
  const length = family === 4 ? 4 : 16;
  return [...new Set(found)]
    .filter((address) => parseAddress(address)?.length === length && !isLoopback(address))
    .sort();
}
