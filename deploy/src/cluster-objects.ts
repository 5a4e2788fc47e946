import type Docker from "dockerode";

const stopSeconds = 5;

/** Removes every container and network of the cluster from the engine. Images stay. Returns how many containers went. */
export async function removeClusterObjects(docker: Docker, clusterId: string): Promise<number> {
  const filters = { label: [`svc.cluster=${clusterId}`] };
  const containers = await docker.listContainers({ all: true, filters });
  await Promise.all(
    containers.map(async ({ Id, State }) => {
      const container = docker.getContainer(Id);
      if (State === "running") await container.stop({ t: stopSeconds }).catch(ignoring(304, 404));
      await container.remove({ force: true, v: true }).catch(ignoring(404, 409));
    }),
  );
  const networks = await docker.listNetworks({ filters });
  await Promise.all(networks.map(({ Id }) => docker.getNetwork(Id).remove().catch(ignoring(404))));
  return containers.length;
}

/** Removes the images that came from the registry or were meant for it, unless a container still uses them. */
export async function removeRegistryImages(docker: Docker, registryHost: string): Promise<void> {
  const isOurs = (name: string) => name.startsWith(`${registryHost}/`);
  for (const { RepoTags, RepoDigests } of await docker.listImages()) {
    // By name, not by id: an image may have names of others besides.
    for (const name of [...(RepoTags ?? []), ...(RepoDigests ?? [])].filter(isOurs)) {
      await docker.getImage(name).remove().catch(ignoring(404, 409));
    }
  }
}

/** Passes over the named answers: the object is already gone, stopped, or being removed. */
const ignoring =
  (...statusCodes: number[]) =>
  (error: unknown): void => {
    const known =
      error instanceof Error &&
      "statusCode" in error &&
      typeof error.statusCode === "number" &&
      statusCodes.includes(error.statusCode);
    if (!known) throw error;
  };
