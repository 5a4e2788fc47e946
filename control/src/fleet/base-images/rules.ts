// @pure
import type { FailureCode, ImageReference } from "@svc/proto";

/** Why a build gets no base image. An empty message stands for the code's own sentence. */
export interface BaseImageRefusal {
  code: FailureCode;
  message: string;
}

import { baseImagePrefix } from "@svc/proto/cluster-registry";

/** Registries that take longer names than this are few. */
const repositoryLengthMax = 200;

/**
 * Where the copy of an image goes, such as `bases/docker.io/library/node`; null when the name is too long for one. Each
 * registry has names of its own: a port is set off by what is in no host's name.
 */
export function baseRepository({ registry, repository }: Pick<ImageReference, "registry" | "repository">) {
  const name = `${baseImagePrefix}${registry.replace(":", "_")}/${repository}`;
  return name.length > repositoryLengthMax ? null : name;
}

const bytesPerMb = 1024 * 1024;

/** Why no further base image is copied for an account; null when it has room. */
export function roomProblem(keptBytes: number, addedBytes: number, maxMb: number): BaseImageRefusal | null {
  if (keptBytes + addedBytes <= maxMb * bytesPerMb) return null;
  return {
    code: "BUILD_FAILED",
    message: `Builds of this account have brought ${Math.ceil(keptBytes / bytesPerMb)} MB of base images, and with this one it would be more than ${maxMb} MB. Start from one that was used before, or wait until some were not used for a month.`,
  };
}
