import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import Docker from "dockerode";

/** A real registry on a free port of loopback, gone on disposal with its files and with what the engine has of it. */
export async function startRegistry(): Promise<AsyncDisposable & { host: string }> {
  const directory = await mkdtemp(join(tmpdir(), "svc-agent-registry-"));
  const config = {
    version: 0.1,
    log: { level: "info", accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(directory, "data") }, delete: { enabled: true } },
    http: { addr: "127.0.0.1:0" },
  };
  // JSON is YAML.
  await writeFile(join(directory, "config.yml"), JSON.stringify(config));
  const child = spawn("docker-registry", ["serve", join(directory, "config.yml")], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  const lines = createInterface({ input: child.stderr });
  const port = await new Promise<string>((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", () => reject(new Error("docker-registry ended at once")));
    lines.on("line", (line) => {
      const listening = /listening on 127\.0\.0\.1:(\d+)/.exec(line)?.[1];
      if (listening !== undefined) resolve(listening);
    });
  });
  return {
    host: `127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      child.kill("SIGKILL");
      await once(child, "exit");
      await rm(directory, { recursive: true, force: true });
      await removeImagesOf(`127.0.0.1:${port}`);
    },
  };
}

/** Without their registry nobody can name these images any more. */
async function removeImagesOf(host: string): Promise<void> {
  const docker = new Docker();
  for (const { RepoTags, RepoDigests } of await docker.listImages()) {
    for (const name of [...(RepoTags ?? []), ...(RepoDigests ?? [])]) {
      // Some name goes with another one.
      if (name.startsWith(`${host}/`))
        await docker
          .getImage(name)
          .remove()
          .catch(() => {});
    }
  }
}
