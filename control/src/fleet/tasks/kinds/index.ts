// @pure

import type { OwnerKind, TaskKind } from "@svc/proto/kinds";
import type { Placement } from "@svc/proto/node";
import type { z } from "zod";
import { backup } from "./backup.ts";
import { build } from "./build.ts";
import { capture } from "./capture.ts";
import { database } from "./database.ts";
import { keeper } from "./keeper.ts";
import type { Kind, KindRules, NodeFacts, RegistryNeeds, TaskOwnerKind } from "./kind.ts";
import { proof } from "./proof.ts";
import { serve } from "./serve.ts";

/** Every kind of task there is. */
const kinds = { build, serve, database, backup, keeper, proof, capture } as const satisfies Record<TaskKind, unknown>;

/** What is stored with a task, by its kind. */
export type TaskSpec = z.output<(typeof kinds)[TaskKind]["spec"]>;

/** The kind of a spec: the table's types and the spec's own `kind` agree. */
const kindOf = (spec: TaskSpec) => kinds[spec.kind] as Kind<TaskSpec>;

export const rulesOf = (kind: TaskKind): KindRules => kinds[kind].rules;
/** Throws when what is stored is not of the task's kind. */
export const specOf = ({ kind, spec }: { kind: TaskKind; spec: unknown }): TaskSpec => kinds[kind].spec.parse(spec);
export const needsOf = (spec: TaskSpec): RegistryNeeds => kindOf(spec).needs(spec);
export const ownerKindOf = (spec: TaskSpec): TaskOwnerKind => kindOf(spec).owner;
export const forNode = (spec: TaskSpec, facts: NodeFacts<OwnerKind>): Placement["spec"] =>
  kindOf(spec).forNode(spec, facts as NodeFacts<TaskOwnerKind>);
