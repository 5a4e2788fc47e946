import { CliError } from "./errors.ts";

/** The machine with that exact id, else the only one of that name. CLI_INVALID_USAGE when the name fits several. */
export function pickNode<N extends { id: string; name: string }>(nodes: readonly N[], named: string): N {
  const byId = nodes.find(({ id }) => id === named);
  if (byId !== undefined) return byId;
  const [first, ...others] = nodes.filter(({ name }) => name === named);
  if (first === undefined)
    throw new CliError("CLOUD_NOT_FOUND", `There is no machine "${named}"`, {
      hint: "See them with `svc admin nodes list`",
    });
  if (others.length === 0) return first;
  const ids = [first, ...others].map(({ id }) => id).join(", ");
  throw new CliError("CLI_INVALID_USAGE", `Several machines are called "${named}"`, {
    hint: `Use one of the ids: ${ids}`,
  });
}
