// @pure
import type { OwnerKind } from "@svc/proto/kinds";
import type { Placement } from "@svc/proto/node";
import type { z } from "zod";
import type { GateOf, OwnerFacts } from "../owners/owner.ts";

/** How the fleet treats tasks of a kind. */
export interface KindRules {
  /**
   * Which node suits it: `fit`, one where processor and memory are used up together, so that large ones find room elsewhere,
   * and away from the others of its owner; `idle`, one where least runs, so that it slows nothing down.
   * A task that is pinned has no choice.
   */
  placement: "fit" | "idle";
  /** So many at once on a node, and how a node that has them is called; null: as many as have room. */
  crowd: { max: number; reason: string } | null;
  /** It runs the image that its deployment has: that has to fit its node's platform and disk. */
  hasImage: boolean;
  /** It runs until it is told to go, and its limits follow its owner's plan meanwhile. */
  isLasting: boolean;
  /**
   * How it leaves a node that is to be empty: `replaced`, by whoever keeps its owner's replicas; `redone`, at the deadline, since
   * it ends by itself: its owner asks for another. With `stays` it does not, until somebody moves it: what is told then, and the
   * command that moves it, which takes project and channel.
   */
  leaves: "replaced" | "redone" | { stays: string; moveWith: string };
  /**
   * Visitors may be using it: one message to a node stops many of these only on purpose. The node's own table of kinds says
   * the same of it.
   */
  isVisited: boolean;
}

/** What a task takes of a node, in MiB and thousandths of a processor, and what is set aside for it. */
export interface TaskResources {
  memoryMb: number;
  cpuMillicores: number;
  pidsLimit: number;
  /** What is set aside of memory and processor time. */
  reservedMemoryMb: number;
  reservedCpuMillicores: number;
  /** What it may write to its node's disk. */
  storageMb: number;
}

/** A task that is asked for. */
export interface NewTask<Spec> extends TaskResources {
  spec: Spec;
  /** Labels that its node must have. */
  nodeSelector: Readonly<Record<string, string>>;
  /** The one node that it can run on, since what it works on is there; absent: any that suits its kind. */
  pinnedTo?: string;
}

/** What some work needs of the cluster's registry. */
export interface RegistryNeeds {
  pull: readonly string[];
  /** The one repository that it writes to, and what; null: to none. */
  push: { repository: string; kind: "image" | "bundle" | "backup" | "screenshot" } | null;
  /** Whether it may start from any base image. */
  baseImages: boolean;
}

/** What the installation adds to every task of a kind. */
export interface Installation {
  /** host:port of the cluster's registry as image references name it. */
  registryHost: string;
  baseImage: string;
  builderImage: string;
  buildCaBundle: string;
  /** Opens a site's gate to a browser of svc's own, for hours. */
  gatePass(gate: GateOf): string;
}

/** What its node is told of a task rests on. */
export type NodeFacts<O extends OwnerKind> = Installation & { owner: OwnerFacts[O] };

/** Owners that have tasks: a run of a job has attempts only. */
export type TaskOwnerKind = Exclude<OwnerKind, "job">;

/** All that is particular to a kind of task: one module for each, and one line in `kinds`. */
export interface Kind<Spec extends { kind: string }, O extends TaskOwnerKind = TaskOwnerKind> {
  /** What such a task is made for. */
  owner: O;
  rules: KindRules;
  /** What is stored with the task: everything but secrets. */
  spec: z.ZodType<Spec>;
  needs(spec: Spec): RegistryNeeds;
  /** The work as its node is told of it, secrets included. */
  forNode(spec: Spec, facts: NodeFacts<O>): Placement["spec"];
}
