import { mkdir } from "node:fs/promises";
import { environmentOf } from "./environment.ts";
import type { ProgramSpec } from "./program.ts";

/** One etcd member on loopback. */
export async function provideEtcd(options: {
  dir: string;
  port: number;
  peerPort: number;
  env: NodeJS.ProcessEnv;
  durable: boolean;
}): Promise<{ spec: ProgramSpec; endpoint: string }> {
  await mkdir(options.dir, { recursive: true, mode: 0o700 });
  const endpoint = `http://127.0.0.1:${options.port}`;
  const peer = `http://127.0.0.1:${options.peerPort}`;
  const flags = {
    name: "local",
    "data-dir": options.dir,
    "listen-client-urls": endpoint,
    "advertise-client-urls": endpoint,
    "listen-peer-urls": peer,
    "initial-advertise-peer-urls": peer,
    "initial-cluster": `local=${peer}`,
    "auto-compaction-mode": "periodic",
    "auto-compaction-retention": "1h",
    "log-level": "warn",
    logger: "zap",
  };
  return {
    endpoint,
    spec: {
      name: "etcd",
      argv: [
        "etcd",
        ...Object.entries(flags).map(([name, value]) => `--${name}=${value}`),
        ...(options.durable ? [] : ["--unsafe-no-fsync"]),
      ],
      // etcd refuses to run on ARM unless told that this is meant.
      env: environmentOf(options.env, process.arch === "arm64" ? { ETCD_UNSUPPORTED_ARCH: "arm64" } : {}),
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
