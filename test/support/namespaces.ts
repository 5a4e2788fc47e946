import { argv, spawnProgram } from "@svc/runtime/programs";
import { childrenOf, networkOf } from "./host.ts";
import { waitFor } from "./wait-for.ts";

/** Namespaces of the kernel, held by a first process: all processes in them end with it. */
export interface Namespaces {
  /** Number of the first process on the machine of the tests. */
  readonly init: number;
  /** Ends every process in them. What they had mounted is gone then, too. */
  end(): Promise<void>;
}

const timeoutMs = 10_000;

/** Makes new namespaces of these kinds beside those of processes and mounts. They end when this process does, however that is. */
export async function holdNamespaces(kinds: readonly ("net" | "uts" | "ipc")[]): Promise<Namespaces> {
  const unshare = argv("unshare", ...kinds.map((kind) => `--${kind}`), "--mount", "--pid", "--fork");
  const alone = ["--kill-child=SIGKILL", "--mount-proc", "--propagation", "private"];
  const first = argv("docker-init", "--", ...argv("sleep", "infinity"));
  const holder = spawnProgram(["setpriv", "--pdeathsig", "KILL", "--", ...unshare, ...alone, ...first], {
    detached: true,
    stdio: "ignore",
  });
  const gone = new Promise<void>((resolve) => {
    holder.once("error", () => resolve());
    holder.once("exit", () => resolve());
  });
  // Its own child is there once it has become what it is to be.
  const init = await waitFor("namespaces to be made", timeoutMs, async () => {
    if (holder.exitCode !== null) throw new Error(`unshare exited with code ${holder.exitCode}`);
    const [child] = await childrenOf(holder.pid ?? 0);
    const [grandchild] = child === undefined ? [] : await childrenOf(child);
    return grandchild === undefined ? null : child;
  });
  return {
    init,
    async end() {
      holder.kill("SIGKILL");
      await gone;
      await waitFor("every process in the namespaces to end", timeoutMs, async () => (await networkOf(init)) === null);
    },
  };
}
