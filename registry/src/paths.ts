import { isDigest } from "@svc/proto/image";

const repositoryPattern = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$/;
const tagPattern = /^\w[\w.-]{0,127}$/;

/** Programming errors, not the registry's: a name that could reach another path is never sent. */
export function repositoryPath(repository: string): string {
  if (repository.length > 255 || !repositoryPattern.test(repository))
    throw new TypeError(`not a repository name: ${JSON.stringify(repository)}`);
  return `/v2/${repository}`;
}

export function blobPath(repository: string, digest: string): string {
  if (!isDigest(digest)) throw new TypeError(`not a digest: ${JSON.stringify(digest)}`);
  return `${repositoryPath(repository)}/blobs/${digest}`;
}

export function manifestPath(repository: string, reference: string): string {
  if (!isDigest(reference) && !tagPattern.test(reference))
    throw new TypeError(`neither a tag nor a digest: ${JSON.stringify(reference)}`);
  return `${repositoryPath(repository)}/manifests/${reference}`;
}
