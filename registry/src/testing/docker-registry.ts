import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { hash } from "@node-rs/bcrypt";
import { registryTokenAudience, registryTokenIssuer } from "@svc/proto/cluster-registry";
import { argv, spawnProgram } from "@svc/runtime/programs";

export type RegistryProcess = AsyncDisposable & {
  url: string;
  /** Where it keeps its files. */
  directory: string;
};

/** Whom a registry lets in: one account, or whoever has a token by the key of this certificate (PEM). */
export type TestAuth = { username: string; password: string } | { tokenCertificate: string; realm?: string };

/** A real registry on a free port of loopback, empty, in a directory of its own that goes with it. Without `auth` it takes anybody. `settings` are the registry's own, besides. */
export async function startDockerRegistry(auth?: TestAuth, settings: object = {}): Promise<RegistryProcess> {
  const directory = await mkdtemp(join(tmpdir(), "svc-registry-"));
  const config = {
    version: 0.1,
    log: { level: "info", accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(directory, "data") }, delete: { enabled: true } },
    http: { addr: "127.0.0.1:0" },
    ...(auth !== undefined && { auth: await authSettings(directory, auth) }),
    ...settings,
  };
  // JSON is YAML.
  await writeFile(join(directory, "config.yml"), JSON.stringify(config));

  // The death signal ends it also when the test process is killed.
  const serve = argv("docker-registry", "serve", join(directory, "config.yml"));
  const child = spawnProgram(["setpriv", "--pdeathsig", "KILL", "--", ...serve], {
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

async function authSettings(directory: string, auth: TestAuth): Promise<object> {
  if ("tokenCertificate" in auth) {
    const rootcertbundle = join(directory, "tokens.pem");
    await writeFile(rootcertbundle, auth.tokenCertificate);
    const { realm = "http://127.0.0.1:9/token" } = auth;
    return { token: { realm, service: registryTokenAudience, issuer: registryTokenIssuer, rootcertbundle } };
  }
  const path = join(directory, "htpasswd");
  await writeFile(path, `${auth.username}:${await hash(auth.password, 4)}\n`);
  return { htpasswd: { realm: "test", path } };
}
