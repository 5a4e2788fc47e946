import { definitionEndpoints } from "./definitions/endpoints.ts";
import { jobRunEndpoints } from "./runs/endpoints.ts";

export const jobEndpoints = [...definitionEndpoints, ...jobRunEndpoints];
