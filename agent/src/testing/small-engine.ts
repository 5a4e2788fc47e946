import { randomBytes, randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "@svc/runtime/command";
import { argv, spawnProgram } from "@svc/runtime/programs";
import Docker from "dockerode";
import { waitFor } from "./wait.ts";

export type SmallEngine = AsyncDisposable & {
  socketPath: string;
  /** Its data: a file system of its own, of the given size. */
  dataDir: string;
  docker: Docker;
};

/**
 * An engine of its own on a small disk, so that the disk can be filled and everything removed without harm to
 * anybody. Its network leads nowhere: nothing can run in it, but it pulls, builds and keeps images as any other. Needs root.
 */
export async function startSmallEngine(sizeMb: number): Promise<SmallEngine> {
  const dir = await mkdtemp(join(tmpdir(), "svc-small-engine-"));
  const dataDir = join(dir, "data");
  const socketPath = join(dir, "sock");
  await mkdir(dataDir);
  await run(["mount", "-t", "tmpfs", "-o", `size=${sizeMb}m`, "tmpfs", dataDir]);
  // With no bridge at all it would take away the one of the machine's own engine.
  const bridge = `svcse${randomBytes(3).toString("hex")}`;
  await run(["ip", "link", "add", bridge, "type", "bridge"]);
  await run(["ip", "address", "add", `10.214.${randomInt(256)}.1/29`, "dev", bridge]);
  const dockerd = argv(
    "dockerd",
    ...["--data-root", dataDir, "--exec-root", join(dir, "exec"), "--pidfile", join(dir, "pid")],
    ...["--host", `unix://${socketPath}`, "--bridge", bridge, "--log-level", "error"],
    ...["--iptables=false", "--ip-masq=false", "--ip-forward=false"],
  );
  // Ends with the test also when that is killed.
  const child = spawnProgram(["setpriv", "--pdeathsig", "TERM", ...dockerd], { stdio: "ignore" });
  const exited = once(child, "exit");
  const docker = new Docker({ socketPath });
  const dispose = async (): Promise<void> => {
    // SIGTERM lets it end the containerd that it started, too.
    child.kill("SIGTERM");
    await exited;
    await waitFor("the disk to be let go", async () => {
      await run(["umount", dataDir]);
      return true;
    });
    await run(["ip", "link", "delete", bridge]);
    await rm(dir, { recursive: true, force: true });
  };
  try {
    await waitFor("an engine of its own", () =>
      docker.ping().then(
        () => true,
        () => false,
      ),
    );
    return { socketPath, dataDir, docker, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}
