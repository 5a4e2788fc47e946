import { isIP } from "node:net";
import { isOneLine } from "@svc/proto";
import type { Hello } from "@svc/proto/node";
import type { NodeSessionValue } from "../cluster/keys.ts";

/** What a daemon says about itself, checked. */
export type HelloFacts = Pick<
  NodeSessionValue,
  "instanceId" | "bootId" | "address" | "capacity" | "platform" | "version" | "labels"
>;

const maxLabels = 64;
const maxTextLength = 253;
const labelKey = /^[a-z0-9]([a-z0-9._/-]{0,61}[a-z0-9])?$/i;

const isText = (text: string) => text !== "" && text.length <= maxTextLength && isOneLine(text);
const hostName = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i;
const isAddress = (text: string) => isIP(text) !== 0 || (text.length <= maxTextLength && hostName.test(text));
const isCount = (value: bigint) => value <= BigInt(Number.MAX_SAFE_INTEGER);

/** The part that agents and routers have in common, or what is wrong with it. */
export function helloProblem(hello: Pick<Hello, "instanceId" | "bootId" | "address" | "version">): string | null {
  if (!isText(hello.instanceId)) return "instance_id";
  if (!isText(hello.bootId)) return "boot_id";
  if (!isText(hello.version)) return "version";
  return isAddress(hello.address) ? null : "address";
}

/** The facts of an agent's Hello, or the name of the first field that cannot be right. */
export function helloFacts(hello: Hello): HelloFacts | { problem: string } {
  const problem = helloProblem(hello);
  if (problem !== null) return { problem };
  const { capacity, platform, labels } = hello;
  if (capacity === undefined || capacity.memoryMb === 0n || capacity.cpuMillicores === 0n)
    return { problem: "capacity" };
  if (![capacity.memoryMb, capacity.cpuMillicores, capacity.pids, capacity.diskMb].every(isCount)) {
    return { problem: "capacity" };
  }
  if (platform === undefined || !isText(platform.os) || !isText(platform.architecture)) return { problem: "platform" };
  const entries = Object.entries(labels);
  const labelsFit = entries.every(
    ([key, value]) => labelKey.test(key) && value.length <= maxTextLength && isOneLine(value),
  );
  if (entries.length > maxLabels || !labelsFit) return { problem: "labels" };
  return {
    instanceId: hello.instanceId,
    bootId: hello.bootId,
    address: hello.address,
    version: hello.version,
    capacity: {
      memoryMb: Number(capacity.memoryMb),
      cpuMillicores: Number(capacity.cpuMillicores),
      pids: Number(capacity.pids),
      diskMb: Number(capacity.diskMb),
    },
    platform: { os: platform.os, architecture: platform.architecture },
    labels: Object.fromEntries(entries),
  };
}
