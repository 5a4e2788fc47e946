import type Docker from "dockerode";
import { z } from "zod";

const failure = z.looseObject({ error: z.string() });

/** Pushes a local image under the name that it has, with a token of its registry. */
export async function pushImage(docker: Docker, name: string, token: string): Promise<void> {
  // The engine shows such a token as it is; the types of its client do not know it.
  const authconfig = { registrytoken: token } as unknown as Docker.AuthConfig;
  await follow(docker, await docker.getImage(name).push({ authconfig }));
}

/** Reads the engine's progress to its end; throws what it reports as an error. */
export function follow(docker: Docker, progress: NodeJS.ReadableStream): Promise<void> {
  return new Promise((resolve, reject) => {
    docker.modem.followProgress(progress, (error: Error | null, events: unknown[]) => {
      const reported = events?.map((event) => failure.safeParse(event)).find(({ success }) => success);
      if (error !== null) reject(error);
      else if (reported?.success) reject(new Error(reported.data.error));
      else resolve();
    });
  });
}
