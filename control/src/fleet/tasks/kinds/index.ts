// @pure

import type { TaskKind } from "@svc/proto/kinds";
import type { Placement } from "@svc/proto/node";
import { z } from "zod";
import { type BuildTaskSpec, build } from "./build.ts";
import type { Kind, KindRules, NodeFacts, RegistryNeeds } from "./kind.ts";
import { type ServeTaskSpec, serve } from "./serve.ts";

/** What is stored with a task, by its kind. */
export type TaskSpec = BuildTaskSpec | ServeTaskSpec;

/** Every kind of task there is. */
const kinds: { readonly [K in TaskKind]: Kind<Extract<TaskSpec, { kind: K }>> } = { build, serve };

/** The kind of a spec: the table's types and the spec's own `kind` agree. */
const kindOf = (spec: TaskSpec) => kinds[spec.kind] as Kind<TaskSpec>;

export const rulesOf = (kind: TaskKind): KindRules => kinds[kind].rules;
export const taskSpec: z.ZodType<TaskSpec> = z.union([build.spec, serve.spec]);
export const needsOf = (spec: TaskSpec): RegistryNeeds => kindOf(spec).needs(spec);
export const forNode = (spec: TaskSpec, facts: NodeFacts): Placement["spec"] | null =>
  kindOf(spec).forNode(spec, facts);
