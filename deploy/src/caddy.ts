import { mkdir, rm } from "node:fs/promises";
import { connect } from "node:net";
import { totalmem } from "node:os";
import { join } from "node:path";
import { caddyEnvironment } from "@svc/runtime/caddy-environment";
import { writeDurably } from "@svc/runtime/durable-file";
import { programAt } from "@svc/runtime/programs";
import { edgeCaddy } from "./edge-caddy/built.ts";
import { environmentOf } from "./environment.ts";
import type { ProgramSpec } from "./program.ts";

/**
 * Caddy with nothing but its administration socket; the router gives it the rest. When it is started
 * again after a crash it resumes the configuration in force, so that sites do not wait for the router.
 */
export async function provideCaddy(options: {
  dir: string;
  adminSocket: string;
  /** What it starts with: an administration socket that the router may use, and nothing else. */
  bootConfig: string;
  env: NodeJS.ProcessEnv;
}): Promise<{ spec: ProgramSpec }> {
  await mkdir(options.dir, { recursive: true, mode: 0o700 });
  const config = join(options.dir, "start.json");
  await writeDurably(config, options.bootConfig);
  // Kept from an earlier run, perhaps with other ports.
  await rm(join(options.dir, "config", "caddy", "autosave.json"), { force: true });
  return {
    spec: {
      name: "caddy",
      argv: [programAt("caddy", edgeCaddy(options.env)), "run", "--config", config, "--resume"],
      env: environmentOf(options.env, {
        ...caddyEnvironment(totalmem()),
        XDG_DATA_HOME: join(options.dir, "data"),
        XDG_CONFIG_HOME: join(options.dir, "config"),
      }),
      ready: () => answers(options.adminSocket),
      readyMs: 20_000,
      stopSignal: "SIGTERM",
      graceMs: 10_000,
    },
  };
}

/** Whether somebody accepts connections on the Unix socket. */
export function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const settle = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(2_000, () => settle(false));
    socket.once("connect", () => settle(true));
    socket.once("error", () => settle(false));
  });
}
