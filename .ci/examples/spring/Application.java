// A Spring MVC application with only the controller of the example, in Jetty.
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;
import org.springframework.web.context.support.StaticWebApplicationContext;
import org.springframework.web.servlet.DispatcherServlet;
import org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerAdapter;
import org.springframework.web.servlet.mvc.method.annotation.RequestMappingHandlerMapping;

public class Application {
    public static void main(String[] arguments) throws Exception {
        // Debian's Spring 4.3 cannot read configuration classes on Java 17, so the beans are listed here.
        StaticWebApplicationContext context = new StaticWebApplicationContext();
        context.registerSingleton("mapping", RequestMappingHandlerMapping.class);
        context.registerSingleton("adapter", RequestMappingHandlerAdapter.class);
        context.registerSingleton("controller", WebhooksController.class);
        Server server = new Server(Integer.parseInt(System.getenv("PORT")));
        ServletContextHandler handler = new ServletContextHandler(server, "/");
        handler.addServlet(new ServletHolder(new DispatcherServlet(context)), "/");
        server.start();
        server.join();
    }
}
