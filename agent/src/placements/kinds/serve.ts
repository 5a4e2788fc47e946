// @pure
import type { ServeSpec } from "@svc/proto/node";
import { nextContainerStep } from "./container.ts";
import type { PlacementKind } from "./kind.ts";

const healthSeconds = 60;

/** A container that answers visitors until it is told to go. */
export const serve: PlacementKind<ServeSpec> = {
  container: ({ image, command, env, databaseId, port, stopGraceSeconds }) => ({
    ...{ image, mayBeLocal: false, command, env, databaseId, port, stopGraceSeconds },
  }),
  isVisited: true,
  rebootsWith: "journal",
  next: (view) =>
    nextContainerStep(view, ({ memory, healthTimeoutMs }, startedMs) =>
      memory.wasHealthy ? { do: "watch" } : { do: "prove", startedMs, untilMs: startedMs + healthTimeoutMs },
    ),
  healthTimeoutMs: ({ health }) => (health?.timeoutSeconds ?? healthSeconds) * 1000,
  images: ({ image }) => (image === undefined ? [] : [image.reference]),
  redact: ({ redact }) => redact,
};
