import { createServer } from "node:net";
import type { Random } from "@svc/runtime/random";

/** Ports of the local platform, all on loopback. The setting that overrides each, and what listens there. */
export const portSettings = {
  api: { setting: "SVC_PORT_API", port: 4000, use: "API" },
  http: { setting: "SVC_PORT_HTTP", port: 8080, use: "sites over HTTP" },
  https: { setting: "SVC_PORT_HTTPS", port: 8443, use: "sites over HTTPS" },
  link: { setting: "SVC_PORT_LINK", port: 7443, use: "link to nodes and edges" },
  enroll: { setting: "SVC_PORT_ENROLL", port: 7444, use: "enrolment of nodes and edges" },
  etcd: { setting: "SVC_PORT_ETCD", port: 4379, use: "etcd" },
  etcdPeer: { setting: "SVC_PORT_ETCD_PEER", port: 4380, use: "etcd, between members" },
  postgres: { setting: "SVC_PORT_POSTGRES", port: 4432, use: "Postgres" },
  registry: { setting: "SVC_PORT_REGISTRY", port: 4500, use: "artifact registry" },
  pages: { setting: "SVC_PORT_PAGES", port: 4480, use: "the router's own pages" },
  certificates: { setting: "SVC_PORT_CERTIFICATES", port: 4481, use: "certificates, as Caddy asks itself for them" },
  edgeHealth: { setting: "SVC_PORT_EDGE_HEALTH", port: 4482, use: "whether visitors are to be sent to the edge" },
  metrics: { setting: "SVC_PORT_METRICS", port: 4600, use: "metrics of control" },
  metricsEdge: { setting: "SVC_PORT_METRICS_EDGE", port: 4610, use: "metrics of the router" },
  metricsNode: { setting: "SVC_PORT_METRICS_NODE", port: 4620, use: "metrics of the agents, each at its own address" },
  metricsDatabases: {
    setting: "SVC_PORT_METRICS_DATABASES",
    port: 4630,
    use: "metrics of the database proxies, each at its node's address",
  },
  databases: {
    setting: "SVC_PORT_DATABASES",
    port: 4640,
    use: "database proxies for one another, each at its node's address",
  },
  acme: { setting: "SVC_PORT_ACME", port: 4490, use: "CA of --acme" },
  acmeRoots: { setting: "SVC_PORT_ACME_ROOTS", port: 4491, use: "what the CA of --acme shows of itself" },
  dns: { setting: "SVC_PORT_DNS", port: 4453, use: "DNS server of --acme" },
  api2: { setting: "SVC_PORT_API_2", port: 4010, use: "API of the second replica" },
  api3: { setting: "SVC_PORT_API_3", port: 4020, use: "API of the third replica" },
  link2: { setting: "SVC_PORT_LINK_2", port: 7453, use: "link of the second replica" },
  link3: { setting: "SVC_PORT_LINK_3", port: 7463, use: "link of the third replica" },
  enroll2: { setting: "SVC_PORT_ENROLL_2", port: 7454, use: "enrolment at the second replica" },
  enroll3: { setting: "SVC_PORT_ENROLL_3", port: 7464, use: "enrolment at the third replica" },
  metrics2: { setting: "SVC_PORT_METRICS_2", port: 4601, use: "metrics of the second replica" },
  metrics3: { setting: "SVC_PORT_METRICS_3", port: 4602, use: "metrics of the third replica" },
  etcd2: { setting: "SVC_PORT_ETCD_2", port: 4389, use: "second etcd member" },
  etcd3: { setting: "SVC_PORT_ETCD_3", port: 4399, use: "third etcd member" },
  etcdPeer2: { setting: "SVC_PORT_ETCD_PEER_2", port: 4390, use: "second etcd member, for the others" },
  etcdPeer3: { setting: "SVC_PORT_ETCD_PEER_3", port: 4400, use: "third etcd member, for the others" },
} as const;

export type PortName = keyof typeof portSettings;
export type Ports = Record<PortName, number>;

export const portNames = Object.keys(portSettings) as PortName[];

/** Where one replica of control listens. */
export interface ReplicaPorts {
  api: number;
  link: number;
  enroll: number;
  metrics: number;
}

/** One replica of control, or, with `ha`, three. */
export function replicaPorts(ports: Ports, ha: boolean): ReplicaPorts[] {
  const { api, link, enroll, metrics } = ports;
  const others = [
    { api: ports.api2, link: ports.link2, enroll: ports.enroll2, metrics: ports.metrics2 },
    { api: ports.api3, link: ports.link3, enroll: ports.enroll3, metrics: ports.metrics3 },
  ];
  return [{ api, link, enroll, metrics }, ...(ha ? others : [])];
}

/** Where one member of etcd serves clients, and the other members. */
export interface MemberPorts {
  client: number;
  peer: number;
}

/** One member of etcd, or, with `ha`, three. */
export function memberPorts(ports: Ports, ha: boolean): MemberPorts[] {
  const others = [
    { client: ports.etcd2, peer: ports.etcdPeer2 },
    { client: ports.etcd3, peer: ports.etcdPeer3 },
  ];
  return [{ client: ports.etcd, peer: ports.etcdPeer }, ...(ha ? others : [])];
}

/** Of the second and third ones of what a platform without `ha` has one of. */
const isOfHa = (name: PortName): boolean => /[23]$/.test(name);

const loopback = "127.0.0.1";

const ofAcme: readonly PortName[] = ["acme", "acmeRoots", "dns"];

/** Whether nobody listens on the port. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ host: loopback, port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** One line per port that is needed and taken, naming the setting that moves it; empty when all are free. */
export async function takenPorts(
  ports: Ports,
  { ha = false, acme = false }: { ha?: boolean; acme?: boolean } = {},
): Promise<string[]> {
  const lines: string[] = [];
  const isUsed = (name: PortName) => (ha || !isOfHa(name)) && (acme || !ofAcme.includes(name));
  for (const name of portNames.filter(isUsed)) {
    const { setting, use } = portSettings[name];
    if (!(await isFree(ports[name]))) {
      lines.push(`port ${ports[name]} (${use}) is taken; free it, or set ${setting} to another port`);
    }
  }
  return lines;
}

/** Below the range from which systems and container engines take ports for themselves. */
export const spareRange = { first: 20_000, last: 29_999 } as const;
const attemptsMax = 500;

/** A free port for each name, at random, so that platforms started side by side rarely meet; in a range of their own never. */
export async function freePorts(
  random: Random,
  { first, last }: { first: number; last: number } = spareRange,
): Promise<Ports> {
  const taken = new Set<number>();
  const one = async (): Promise<number> => {
    for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
      const port = first + Math.floor(random.next() * (last - first + 1));
      if (taken.has(port) || !(await isFree(port))) continue;
      taken.add(port);
      return port;
    }
    throw new Error(`no free port between ${first} and ${last}`);
  };
  const ports: Partial<Ports> = {};
  for (const name of portNames) ports[name] = await one();
  return ports as Ports;
}
