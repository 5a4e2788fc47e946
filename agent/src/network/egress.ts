import { parseAddress } from "@svc/proto";

/** How much of what is not public programs of this machine may begin to speak to. */
export type EgressMode = "closed" | "metadata" | "open";

/** What they may speak to whatever the mode says. */
export interface EgressTarget {
  /** An address or a network, such as 10.0.0.0/8. */
  network: string;
  family: 4 | 6;
  /** Of TCP; null: everything. */
  port: number | null;
}

/** Services of clouds that hand out credentials to whoever asks from the machine. */
const metadata = {
  4: ["169.254.0.0/16", "168.63.129.16/32", "100.100.100.200/32"],
  6: ["fd00:ec2::254/128", "fd20:ce::254/128", "fe80::a9fe:a9fe/128"],
} as const;
/** Networks of those who run machines, where the next database or administration may listen. */
const privateNetworks = {
  4: ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15"],
  6: ["fc00::/7", "fe80::/10"],
} as const;
const reject = { 4: "REJECT --reject-with icmp-port-unreachable", 6: "REJECT --reject-with icmp6-port-unreachable" };
/** What a machine needs of its own network: an address, and the time. Neither service gives anything else away. */
const ofTheMachine = {
  4: ["-p udp -m udp --sport 68 --dport 67", "-p udp -m udp --dport 123"],
  // Neighbours are found by ICMP.
  6: ["-p ipv6-icmp", "-p udp -m udp --sport 546 --dport 547", "-p udp -m udp --dport 123"],
};

export const egressChain = "SVC-OUTPUT";
/** Each is a rule that every new connection may have to pass. */
export const egressTargetsMax = 256;
/** What an agent wants of a chain that several share is forgotten when it has not said it for so long. */
const forgottenMinutes = 60;
const othersMax = 1_000;

export interface EgressFacts {
  family: 4 | 6;
  mode: EgressMode;
  /** What this agent needs: control, the registry, database proxies of other machines, and what the operator named. */
  allow: readonly EgressTarget[];
  /** Resolvers of this machine, of that family. */
  nameservers: readonly string[];
  /** Interfaces behind which containers of this machine are. */
  bridges: readonly string[];
  /** Tells this agent from the others of the machine, also after a restart. */
  key: string;
  /** Minutes since 1970. */
  minute: number;
  /** Rules of the chain as it is, such as `iptables -S` prints them. */
  present: readonly string[];
}

/**
 * Input of `iptables-restore --noflush`: the chain that judges connections which programs of this machine begin, the
 * container engine and the agent among them. Nothing is accepted here; what is allowed returns to the rules of the
 * operator. Agents of one machine share the chain: each writes its own needs beside those of the others, and the one that
 * needs most decides.
 */
export function renderEgress(facts: EgressFacts): string {
  const { family, mode, bridges, nameservers, allow, minute } = facts;
  const bits = family === 4 ? 32 : 128;
  const own = (section: Section, match = "") =>
    `${match} -m comment --comment svc-${section}:${facts.key}:${minute} -j RETURN`.trimStart();
  const others = (section: Section) => rulesOfOthers(facts, section);
  const rules = [
    "-o lo -j RETURN",
    "-m conntrack --ctstate RELATED,ESTABLISHED -j RETURN",
    ...bridges.map((name) => own("allow", `-o ${name}`)),
    ...ofTheMachine[family].map((match) => `${match} -j RETURN`),
    ...nameservers.flatMap((address) =>
      ["udp", "tcp"].map((protocol) => `-d ${address}/${bits} -p ${protocol} -m ${protocol} --dport 53 -j RETURN`),
    ),
    ...allow.filter((target) => target.family === family).map((target) => own("allow", matchOf(target))),
    ...(mode === "open" ? [own("allow")] : []),
    ...others("allow"),
    ...metadata[family].map((range) => `-d ${range} -j ${reject[family]}`),
    ...(mode === "closed" ? [] : [own("private")]),
    ...others("private"),
    ...privateNetworks[family].map((range) => `-d ${range} -j ${reject[family]}`),
  ];
  const lines = ["*filter", `:${egressChain} - [0:0]`, ...rules.map((rule) => `-A ${egressChain} ${rule}`), "COMMIT"];
  return `${lines.join("\n")}\n`;
}

/** Before the services of clouds are closed, or before private networks are. */
type Section = "allow" | "private";

const matchOf = ({ network, port }: EgressTarget): string =>
  port === null ? `-d ${network}` : `-d ${network} -p tcp -m tcp --dport ${port}`;

function rulesOfOthers({ present, key, minute }: EgressFacts, section: Section): string[] {
  const found: string[] = [];
  for (const line of present) {
    const [, rule = "", of, by, at] =
      /^-A SVC-OUTPUT (.*--comment "?svc-(\w+):(\w+):(\d+)"? -j RETURN)$/.exec(line) ?? [];
    if (of === section && by !== key && Number(at) > minute - forgottenMinutes) found.push(rule);
  }
  return found.slice(0, othersMax);
}

const withPort = /^(?:\[([^\]]+)\]|([\d.]+))(?:\/(\d{1,3}))?(?::(\d{1,5}))?$/;
/** Colons of its own leave no room for a port. */
const bareV6 = /^()([\da-fA-F:.]+)(?:\/(\d{1,3}))?$/;

/** `address` or `address/bits`, either with `:port`; an IPv6 address with a port in brackets. Null when it is neither. */
export function parseEgressTarget(text: string): EgressTarget | null {
  const [, bracketed, plain, bits, port] = withPort.exec(text) ?? bareV6.exec(text) ?? [];
  const address = bracketed || plain || "";
  const length = parseAddress(address)?.length;
  const family = length === 4 ? 4 : 6;
  if (length === undefined || (family === 4 && address === bracketed)) return null;
  if (Number(bits ?? 0) > (family === 4 ? 32 : 128) || (port !== undefined && !isPort(Number(port)))) return null;
  return {
    network: `${address}/${bits ?? (family === 4 ? 32 : 128)}`,
    family,
    port: port === undefined ? null : Number(port),
  };
}

const isPort = (port: number): boolean => port >= 1 && port <= 65_535;
