// @pure
import { baseImagePrefix } from "@svc/proto/cluster-registry";
import type { Route } from "@svc/proto/edge";
import type { Access } from "@svc/registry";
import { isRunOver, type PlacementValue, type RunValue } from "../cluster/keys.ts";
import { needsOf, type TaskSpec } from "../tasks/kinds/index.ts";
import type { RegistryNeeds } from "../tasks/kinds/kind.ts";

/** What a node asks to be allowed. */
export interface TokenWish {
  repository: string;
  push: boolean;
  /** A base image whose layers are to become those of `repository`; empty: none. */
  mountFrom: string;
}

/** What a placement needs now: nothing once it is to end, or is not on the node that asks. */
export const needsOfPlacement = (
  placement: Pick<PlacementValue, "desired"> | null,
  spec: TaskSpec | null,
): RegistryNeeds | null => (placement?.desired !== "running" || spec === null ? null : needsOf(spec));

/** What a run attempt needs now: its image, until it is over or called off. */
export const needsOfRun = (
  run: Pick<RunValue, "state" | "cancel"> | null,
  imageRepository: string | null,
): RegistryNeeds | null =>
  run === null || run.cancel || isRunOver(run.state) || imageRepository === null
    ? null
    : { pull: [imageRepository], push: null, baseImages: false };

/** What the token allows; null: there is none. */
export function grant(needs: RegistryNeeds | null, { repository, push, mountFrom }: TokenWish): Access[] | null {
  if (needs === null) return null;
  const mayRead = (name: string) => needs.pull.includes(name) || (needs.baseImages && name.startsWith(baseImagePrefix));
  if (!push) return mountFrom === "" && mayRead(repository) ? [pull(repository)] : null;
  if (repository !== needs.push?.repository) return null;
  const both: Access = { type: "repository", name: repository, actions: ["pull", "push"] };
  if (mountFrom === "") return [both];
  return mayRead(mountFrom) ? [both, pull(mountFrom)] : null;
}

const pull = (name: string): Access => ({ type: "repository", name, actions: ["pull"] });

/** What the token of an edge allows: every edge has every bundle of the table, and no other. */
export function grantToEdge(routes: Iterable<Pick<Route, "target">>, repository: string): Access[] | null {
  for (const { target } of routes)
    if (target.case === "static" && target.value.repository === repository) return [pull(repository)];
  return null;
}
