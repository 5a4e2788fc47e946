// @pure
import type { Placement } from "@svc/proto/node";
import { backup } from "./backup.ts";
import { build } from "./build.ts";
import { capture } from "./capture.ts";
import { database } from "./database.ts";
import { keeper } from "./keeper.ts";
import type { PlacementKind } from "./kind.ts";
import { proof } from "./proof.ts";
import { serve } from "./serve.ts";

type Spec = Extract<Placement["spec"], { case: string }>;
export type KindName = Spec["case"];

/** Every kind of placement that this agent knows. */
const kinds: { readonly [K in KindName]: PlacementKind<Extract<Spec, { case: K }>["value"]> } = {
  backup,
  build,
  capture,
  database,
  keeper,
  proof,
  serve,
};

/** The kind by its name; null for one that is not known: the journal was lost and only a container's labels are left. */
export const kindNamed = (name: KindName | "unknown"): PlacementKind<never> | null =>
  name === "unknown" ? null : kinds[name];

/** Whether containers are labelled with this as their kind because a placement runs in them. */
export const isContainerKind = (label: string | undefined): boolean =>
  label !== undefined && Object.hasOwn(kinds, label) && kinds[label as KindName].container !== null;

/** Whether containers are labelled with this as their kind because a placement has them do its work, and takes them away with it. */
export const isHelperKind = (label: string | undefined): boolean =>
  label !== undefined && Object.hasOwn(kinds, label) && kinds[label as KindName].container === null;

/** The kind of a placement with its facts; null when the placement does not say. */
export function kindOf({ spec }: Pick<Placement, "spec">) {
  if (spec.case === undefined) return null;
  const kind = kinds[spec.case] as PlacementKind<Spec["value"]>;
  return {
    name: spec.case,
    container: kind.container?.(spec.value) ?? null,
    isVisited: kind.isVisited,
    rebootsWith: kind.rebootsWith,
    healthTimeoutMs: kind.healthTimeoutMs(spec.value),
    redact: kind.redact(spec.value),
    images: (at: Parameters<typeof kind.images>[1]) => kind.images(spec.value, at),
  };
}

/** Whether it is known to run in a container. */
export const hasContainer = (placement: Pick<Placement, "spec">): boolean =>
  (kindOf(placement)?.container ?? null) !== null;
