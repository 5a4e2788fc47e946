import { mkdir } from "node:fs/promises";
import { environmentOf } from "./environment.ts";
import type { MemberPorts } from "./ports.ts";
import type { ProgramSpec } from "./program.ts";

/** What the members of one cluster share. */
interface ClusterOptions {
  env: NodeJS.ProcessEnv;
  durable: boolean;
}

/** The only member of its cluster, on loopback. */
export async function provideEtcd(
  options: ClusterOptions & { dir: string; port: number; peerPort: number },
): Promise<{ spec: ProgramSpec; endpoint: string }> {
  const { dir, port, peerPort } = options;
  const plan = { program: "etcd", name: "local", dir, client: port, peer: peerPort };
  return memberOf(plan, [plan], options);
}

/** Several members on loopback, each with a directory of its own. `etcd-1` to `etcd-3`, in the order of `ports`. */
export function provideEtcdMembers(
  options: ClusterOptions & { dirOf(number: number): string; ports: readonly MemberPorts[] },
): Promise<{ spec: ProgramSpec; endpoint: string }[]> {
  const plans = options.ports.map(({ client, peer }, index) => {
    const program = `etcd-${index + 1}`;
    return { program, name: program, dir: options.dirOf(index + 1), client, peer };
  });
  return Promise.all(plans.map((plan) => memberOf(plan, plans, options)));
}

interface MemberPlan extends MemberPorts {
  program: string;
  /** By which the other members know it. */
  name: string;
  dir: string;
}

const urlOf = (port: number) => `http://127.0.0.1:${port}`;

async function memberOf(
  { program, name, dir, client, peer }: MemberPlan,
  cluster: readonly MemberPlan[],
  { env, durable }: ClusterOptions,
): Promise<{ spec: ProgramSpec; endpoint: string }> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const endpoint = urlOf(client);
  const flags = {
    name,
    "data-dir": dir,
    "listen-client-urls": endpoint,
    "advertise-client-urls": endpoint,
    "listen-peer-urls": urlOf(peer),
    "initial-advertise-peer-urls": urlOf(peer),
    "initial-cluster": cluster.map((member) => `${member.name}=${urlOf(member.peer)}`).join(","),
    "auto-compaction-mode": "periodic",
    "auto-compaction-retention": "1h",
    "log-level": "warn",
    logger: "zap",
  };
  return {
    endpoint,
    spec: {
      name: program,
      argv: [
        "etcd",
        ...Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`),
        ...(durable ? [] : ["--unsafe-no-fsync"]),
      ],
      // etcd refuses to run on ARM unless told that this is meant.
      env: environmentOf(env, process.arch === "arm64" ? { ETCD_UNSUPPORTED_ARCH: "arm64" } : {}),
      // Also of its cluster: a member without a majority serves nobody.
      ready: async (signal) => {
        const reply = await fetch(`${endpoint}/health`, { signal });
        return (await reply.text()).includes('"health":"true"');
      },
      readyMs: 30_000,
      stopSignal: "SIGTERM",
      graceMs: 10_000,
    },
  };
}
