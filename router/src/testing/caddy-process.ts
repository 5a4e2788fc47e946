import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, open, writeFile } from "node:fs/promises";
import { totalmem } from "node:os";
import { join } from "node:path";
import { caddyEnvironment } from "@svc/runtime/caddy-environment";
import { programAt, spawnProgram } from "@svc/runtime/programs";
import { systemClock } from "@svc/runtime/system";
import { createCaddyAdmin } from "../caddy.ts";
import { bootConfig } from "../render/render.ts";
import { waitFor } from "./wait-for.ts";

/** A real Caddy with nothing but its administration, as an edge starts it. */
export interface CaddyProcess extends AsyncDisposable {
  adminSocket: string;
  binary: string;
  pid: number;
  /** File of what it says of its troubles. */
  errorsFile: string;
  /** SIGKILL, and wait until it is gone. */
  kill(): Promise<void>;
  /** Starts it again after `kill`, with what it had. */
  restart(): Promise<void>;
}

/** The system's, unless SVC_CADDY_BINARY names another. */
export const usualCaddy = (): string => process.env["SVC_CADDY_BINARY"] ?? "caddy";

/** @param settings of Go's, unless those of an edge */
export async function startCaddy(
  dir: string,
  settings: Record<string, string> = caddyEnvironment(totalmem()),
  binary = usualCaddy(),
): Promise<CaddyProcess> {
  const adminSocket = join(dir, "admin.sock");
  const boot = join(dir, "boot.json");
  const errorsFile = join(dir, "errors.log");
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await writeFile(boot, JSON.stringify(bootConfig(adminSocket)));
  let child: ChildProcess;
  const run = async (): Promise<void> => {
    await using errors = await open(errorsFile, "a");
    child = spawnProgram([programAt("caddy", binary), "run", "--resume", "--config", boot], {
      stdio: ["ignore", "ignore", errors.fd],
      env: {
        ...process.env,
        ...settings,
        XDG_CONFIG_HOME: join(dir, "config"),
        XDG_DATA_HOME: join(dir, "data"),
        HOME: dir,
      },
    });
    await waitFor(async () => {
      await createCaddyAdmin(systemClock, adminSocket).config();
      return true;
    });
  };
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  };
  try {
    await run();
  } catch (cause) {
    await kill();
    throw cause;
  }
  return {
    adminSocket,
    binary,
    errorsFile,
    get pid() {
      return child.pid ?? 0;
    },
    kill,
    restart: run,
    [Symbol.asyncDispose]: kill,
  };
}
