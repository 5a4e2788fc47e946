import { isRouteErrorResponse, Links, Meta, Outlet, Scripts } from "react-router";
import "./style.css";

export function Layout({ children }) {
  return (
    <html lang="en">
      <head>
        <meta charSet="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>Ferry desk</title>
        <Meta />
        <Links />
      </head>
      <body>
        {children}
        <Scripts />
      </body>
    </html>
  );
}

export default function Root() {
  return <Outlet />;
}

export function ErrorBoundary({ error }) {
  return <h1>{isRouteErrorResponse(error) && error.status === 404 ? "No ferry lands there" : "Rough sea"}</h1>;
}
