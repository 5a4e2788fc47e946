import type Docker from "dockerode";

const stopSeconds = 5;
/** A database server writes what is only in memory; whoever kills it makes the next start repeat that from its log. */
const databaseStopSeconds = 60;

/**
 * Removes every container and network of the cluster from the engine. Images stay, and so does what databases keep.
 * Returns how many containers went.
 */
export async function removeClusterObjects(docker: Docker, clusterId: string): Promise<number> {
  const filters = { label: [`svc.cluster=${clusterId}`] };
  const containers = await docker.listContainers({ all: true, filters });
  await Promise.all(
    containers.map(async ({ Id, State, Labels }) => {
      const container = docker.getContainer(Id);
      if (State === "running") await container.stop({ t: stopSecondsOf(Labels) }).catch(ignoring(304, 404));
      await container.remove({ force: true, v: true }).catch(ignoring(404, 409));
    }),
  );
  const networks = await docker.listNetworks({ filters });
  await Promise.all(networks.map(({ Id }) => docker.getNetwork(Id).remove().catch(ignoring(404))));
  return containers.length;
}

const stopSecondsOf = (marks: Readonly<Record<string, string>>): number =>
  marks["svc.kind"] === "database" ? databaseStopSeconds : stopSeconds;

/** Destroys what databases of the cluster, and copies of them, keep in the engine. Their containers are gone. */
export async function removeDatabaseVolumes(docker: Docker, clusterId: string): Promise<void> {
  for (const mark of ["svc.database", "svc.copy"]) {
    const filters = JSON.stringify({ label: [`svc.cluster=${clusterId}`, mark] });
    const { Volumes } = await docker.listVolumes({ filters });
    await Promise.all((Volumes ?? []).map(({ Name }) => docker.getVolume(Name).remove().catch(ignoring(404))));
  }
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
