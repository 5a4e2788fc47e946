import type { MessageInitShape } from "@bufbuild/protobuf";
import { failureMessage, limits } from "@svc/proto";
import type { FetchBaseImageRequest, FetchBaseImageResponseSchema } from "@svc/proto/node";
import type { Db } from "../../stores/db/pool.ts";
import type { Etcd } from "../../stores/etcd/index.ts";
import type { BaseImages } from "../base-images/fetch.ts";
import { ownerOfBuild } from "../base-images/owner.ts";
import { LinkError } from "../sessions/errors.ts";

export interface BaseImageDeps {
  db: Db;
  etcd: Pick<Etcd, "get">;
  baseImages: Pick<BaseImages, "fetch">;
  /** host:port of the cluster's registry, as image references name it. */
  registryHost: string;
}

const platformWord = /^[a-z0-9]{1,32}$/;

/** What a node is told that asks for a base image of one of its builds. */
export async function answerBaseImage(
  { baseImages, registryHost, ...stores }: BaseImageDeps,
  nodeId: string,
  { placementId, reference, platform }: FetchBaseImageRequest,
): Promise<MessageInitShape<typeof FetchBaseImageResponseSchema>> {
  const { os = "", architecture = "" } = platform ?? {};
  if (
    reference.length > limits.imageReferenceLengthMax ||
    ![os, architecture].every((word) => platformWord.test(word))
  ) {
    throw new LinkError("INVALID_ARGUMENT", "an image reference and a platform are needed");
  }
  const ownerId = await ownerOfBuild(stores, nodeId, placementId);
  if (ownerId === null) throw new LinkError("NOT_FOUND", "this node has no such build");
  const answer = await baseImages.fetch({ ownerId, reference, platform: { os, architecture } });
  if (answer === null) return {};
  if ("refusal" in answer) {
    const { code, message } = answer.refusal;
    return { answer: { case: "refusal", value: { code, message: message || failureMessage(code) } } };
  }
  return { answer: { case: "reference", value: `${registryHost}/${answer.repository}@${answer.digest}` } };
}
