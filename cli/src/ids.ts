import { CliError } from "./errors.ts";

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Whether `text` has the form of an id of a project or a deployment. */
export const isId = (text: string): boolean => uuid.test(text);

/** `text` as the id of a deployment; CLI_INVALID_USAGE when it cannot be one. */
export function deploymentIdOf(text: string): string {
  if (isId(text)) return text.toLowerCase();
  throw new CliError("CLI_INVALID_USAGE", `"${text}" is not the id of a deployment`, {
    hint: "See the deployments with `svc status`",
  });
}
