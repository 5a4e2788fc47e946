import { index, route } from "@react-router/dev/routes";

export default [index("routes/home.jsx"), route("islands/:name", "routes/island.jsx")];
