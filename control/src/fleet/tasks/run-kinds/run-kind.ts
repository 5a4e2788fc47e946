// @pure
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { BlockerWait } from "@svc/proto";
import type { OwnerKind } from "@svc/proto/kinds";
import type { RunOfferSchema } from "@svc/proto/node";
import type { Plan } from "../../../stores/db/tables.ts";
import type { Installation } from "../kinds/kind.ts";
import type { OwnerFacts } from "../owners/owner.ts";

/** What a run does and in which of its project's networks, apart from what every offer says of which attempt it is and whose. */
export type RunWork = Pick<
  Exclude<MessageInitShape<typeof RunOfferSchema>, { $typeName: string }>,
  "channel" | "image" | "command" | "env" | "redact" | "databaseId" | "resources" | "timeoutSeconds"
>;

/** What its node is told of a run rests on. */
export type RunFacts<O extends OwnerKind> = Installation & {
  owner: OwnerFacts[O];
  /** Of the account that the project is. */
  plan: Plan;
};

/**
 * All that is particular to a kind of run, as far as the fleet has to know: one module for each, and one line in
 * `runKinds`. That an attempt starts at most once holds for all of them. What its owner makes of an outcome, also of one
 * that nobody knows (a fence, a restore, an agent that lost its journal), is the owner's worker's to decide.
 */
export interface KindOfRun<O extends OwnerKind = OwnerKind> {
  /** What such a run is made for. */
  owner: O;
  /** What people call it, inside a sentence, one and several of them. */
  called: { one: string; many: string };
  /** What a drain waits for while it runs. */
  waitsFor: BlockerWait;
  /** The work as its node is offered it, secrets included; null when the owner has none, or not any more. */
  forNode(facts: RunFacts<O>): RunWork | null;
}

/** A command in the image of a deployment, with what its containers have; null when that image is not known (any more). */
export function commandWork({
  deployment: { channel, artifact_repository: repository, artifact_digest: digest },
  plan,
  registryHost,
  secretValues,
  ...work
}: Pick<OwnerFacts["deployment"], "deployment" | "env" | "secretValues" | "databaseId"> &
  Required<Pick<RunWork, "command" | "resources" | "timeoutSeconds">> & {
    plan: Plan;
    registryHost: string;
  }): RunWork | null {
  if (repository === null || digest === null) return null;
  const { command, env, databaseId, resources, timeoutSeconds } = work;
  return {
    ...{ channel, command, env, databaseId, resources, timeoutSeconds },
    image: { reference: `${registryHost}/${repository}@${digest}`, maxSizeMb: plan.storage_mb },
    redact: [...secretValues],
  };
}
