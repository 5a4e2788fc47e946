import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { hash } from "@node-rs/bcrypt";

export type RegistryProcess = AsyncDisposable & {
  url: string;
  /** Where it keeps its files. */
  directory: string;
};

/** A real registry on a free port of loopback, empty, in a directory of its own that goes with it. */
export async function startDockerRegistry(account?: { username: string; password: string }): Promise<RegistryProcess> {
  const directory = await mkdtemp(join(tmpdir(), "svc-registry-"));
  if (account !== undefined)
    await writeFile(join(directory, "htpasswd"), `${account.username}:${await hash(account.password, 4)}\n`);
  const config = {
    version: 0.1,
    log: { level: "info", accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(directory, "data") }, delete: { enabled: true } },
    http: { addr: "127.0.0.1:0" },
    ...(account === undefined ? {} : { auth: { htpasswd: { realm: "test", path: join(directory, "htpasswd") } } }),
  };
  // JSON is YAML.
  await writeFile(join(directory, "config.yml"), JSON.stringify(config));

  const child = spawn("docker-registry", ["serve", join(directory, "config.yml")], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    await rm(directory, { recursive: true, force: true });
  };
  try {
    const signal = AbortSignal.timeout(15_000);
    const lines = createInterface({ input: child.stderr, signal });
    const port = await new Promise<string>((resolve, reject) => {
      child.once("error", reject);
      child.once("exit", () => reject(new Error("docker-registry did not start")));
      signal.addEventListener("abort", () => reject(new Error("docker-registry did not say that it listens")));
      lines.on("line", (line) => {
        const listening = /listening on 127\.0\.0\.1:(\d+)/.exec(line)?.[1];
        if (listening !== undefined) resolve(listening);
      });
    });
    // It writes a line per request, and would wait for ever once nobody reads them.
    lines.close();
    child.stderr.resume();
    return { url: `http://127.0.0.1:${port}`, directory, [Symbol.asyncDispose]: stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
