// @pure
import type { Placement } from "@svc/proto/node";
import type { z } from "zod";
import type { Deployment, Project } from "../../../stores/db/tables.ts";
import type { PriorBuild } from "../prior-builds.ts";

/** How the fleet treats tasks of a kind. */
export interface KindRules {
  /**
   * Which node suits it: `fit`, one where processor and memory are used up together, so that large ones find room elsewhere,
   * and away from the others of its owner; `idle`, one where least runs, so that it slows nothing down.
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
   * it ends by itself: its owner asks for another.
   */
  leaves: "replaced" | "redone";
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
}

/** What some work needs of the cluster's registry. */
export interface RegistryNeeds {
  pull: readonly string[];
  /** The one repository that it writes to; null: to none. */
  push: string | null;
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
}

/** What is known of a task's owner when its node is told of it. */
export interface OwnerFacts {
  deployment: Deployment;
  project: Project;
  /** The variables that it was accepted with, opened. */
  ownEnv: Readonly<Record<string, string>>;
  /** All that its containers are told: the platform's variables over its own. */
  env: Readonly<Record<string, string>>;
}

export interface NodeFacts extends Installation {
  /** Null: the owner is gone. */
  owner: OwnerFacts | null;
  /** Stands for the variables of a build, without showing them. */
  envDigest(): string;
  priorBuilds: readonly PriorBuild[];
}

/** All that is particular to a kind of task: one module for each, and one line in `kinds`. */
export interface Kind<Spec extends { kind: string }> {
  rules: KindRules;
  /** What is stored with the task: everything but secrets. */
  spec: z.ZodType<Spec>;
  needs(spec: Spec): RegistryNeeds;
  /** The work as its node is told of it, secrets included; null when there is none without its owner. */
  forNode(spec: Spec, facts: NodeFacts): Placement["spec"] | null;
}
