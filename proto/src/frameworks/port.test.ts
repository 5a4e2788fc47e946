import { expect, test } from "vitest";
import { portOfDockerfile, portOfSource } from "./port.ts";

// With expressions that try each way to split a text, any of these takes minutes.
const slow = (start: string, piece: string): string => start + piece.repeat((1024 * 1024) / piece.length);

test.each([slow("ENV ", "a"), `${slow("ENV a", " ")}"`, `${slow("", " ")}x`, slow("EXPOSE ", "$a")])(
  "a Dockerfile that is made to be slow tells no port (%#)",
  (text) => {
    expect(portOfDockerfile(text)).toBeNull();
  },
);

test.each([slow("", "env."), slow("", "port "), slow("port", " "), slow("listen(", " ")])(
  "a source that is made to be slow tells no port (%#)",
  (text) => {
    expect(portOfSource(text, "server.js")).toBeNull();
  },
);
