import Docker from "dockerode";
import { startDockerRegistry, type TestAuth } from "../../../registry/src/testing/docker-registry.ts";

export type TestRegistry = AsyncDisposable & { host: string };

/** A real registry on a free port of loopback, gone on disposal with its files and with what the engine has of it. */
export async function startRegistry(auth?: TestAuth): Promise<TestRegistry> {
  const registry = await startDockerRegistry(auth);
  const { host } = new URL(registry.url);
  return {
    host,
    async [Symbol.asyncDispose]() {
      await registry[Symbol.asyncDispose]();
      await removeImagesOf(host);
    },
  };
}

/** Without their registry nobody can name these images any more. */
export async function removeImagesOf(host: string): Promise<void> {
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
