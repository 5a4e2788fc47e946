import type { BuildSpec } from "@svc/proto/node";
import { cleanLine } from "../logs/lines.ts";
import type { LogStream } from "../logs/log-stream.ts";

/** The build of which something is said. */
interface Narrated {
  output: Pick<LogStream, "write">;
  spec: Pick<BuildSpec, "redact">;
}

/**
 * Says in a build's log what the platform does, apart from what the project's own commands say: in one line, since it may
 * hold what stands in a manifest or is the name of a file.
 */
export const narrate = ({ output, spec }: Narrated, text: string): void =>
  output.write(`› ${cleanLine(text, spec.redact)}\n`);
