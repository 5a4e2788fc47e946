import type { Log } from "@svc/agent/log";
import type { Process } from "../kernel/kernel.ts";

const levels = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

/** The log of a program in the virtual world: lines of the trace, when somebody reads that. */
export function virtualLog({ kernel, id }: Process, bound: Readonly<Record<string, unknown>> = {}): Log {
  const write =
    (level: (typeof levels)[number]) =>
    (first: unknown, text?: string): void =>
      kernel.note(() => {
        const [fields, message] = typeof first === "string" ? [{}, first] : [first as Record<string, unknown>, text];
        return `${id}: ${level} ${message ?? ""} ${fieldsOf({ ...bound, ...fields })}`.trimEnd();
      });
  const log = {
    ...Object.fromEntries(levels.map((level) => [level, write(level)])),
    child: (more: Record<string, unknown>) => virtualLog(kernelOf, { ...bound, ...more }),
  };
  const kernelOf = { kernel, id } as Process;
  return log as unknown as Log;
}

const fieldsOf = (fields: Readonly<Record<string, unknown>>): string =>
  Object.entries(fields)
    .map(([key, value]) => `${key}=${textOf(value)}`)
    .join(" ");

function textOf(value: unknown): string {
  if (value instanceof Error) return `"${value.name}: ${value.message}"`;
  if (typeof value === "object" && value !== null)
    return JSON.stringify(value, (_, each) => (typeof each === "bigint" ? String(each) : each));
  return String(value);
}
