import { startOwnEngine } from "@svc/runtime/testing/own-engine";
import Docker from "dockerode";

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
  const engine = await startOwnEngine({ dataMb: sizeMb });
  const { socketPath, dataDir } = engine;
  return {
    socketPath,
    dataDir,
    docker: new Docker({ socketPath }),
    [Symbol.asyncDispose]: () => engine[Symbol.asyncDispose](),
  };
}
