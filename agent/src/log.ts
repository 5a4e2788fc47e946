import { type Logger, pino } from "pino";

export type Log = Logger;

/** The one logger of the process: JSON lines on stdout. What may hold a secret is cut here, whoever logs it. */
export function createLog(level: string): Log {
  return pino({
    level,
    base: { program: "agent" },
    redact: { paths: ["*.env", "*.password", "*.token", "*.authconfig", "*.privateKeyPem"], censor: "[redacted]" },
  });
}
