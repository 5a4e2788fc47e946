import { createServer } from "node:net";

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
} as const;

export type PortName = keyof typeof portSettings;
export type Ports = Record<PortName, number>;

export const portNames = Object.keys(portSettings) as PortName[];

const loopback = "127.0.0.1";

/** Whether nobody listens on the port. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ host: loopback, port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

/** One line per port that is taken, naming the setting that moves it; empty when all are free. */
export async function takenPorts(ports: Ports): Promise<string[]> {
  const lines: string[] = [];
  for (const name of portNames) {
    const { setting, use } = portSettings[name];
    if (!(await isFree(ports[name]))) {
      lines.push(`port ${ports[name]} (${use}) is taken; free it, or set ${setting} to another port`);
    }
  }
  return lines;
}

/** Below the range from which systems and container engines take ports for themselves. */
const lowest = 20_000;
const highest = 29_999;
const attemptsMax = 500;

/** A free port for each name, at random, so that platforms started side by side rarely meet. */
export async function freePorts(): Promise<Ports> {
  const taken = new Set<number>();
  const one = async (): Promise<number> => {
    for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
      const port = lowest + Math.floor(Math.random() * (highest - lowest + 1));
      if (taken.has(port) || !(await isFree(port))) continue;
      taken.add(port);
      return port;
    }
    throw new Error(`no free port between ${lowest} and ${highest}`);
  };
  const ports: Partial<Ports> = {};
  for (const name of portNames) ports[name] = await one();
  return ports as Ports;
}
