<?php
// A Laravel application with only the routes of the example.
require 'Illuminate/autoload.php';

use Illuminate\Events\Dispatcher;
use Illuminate\Filesystem\Filesystem;
use Illuminate\Http\Request;
use Illuminate\Routing\Redirector;
use Illuminate\Routing\ResponseFactory;
use Illuminate\Routing\Router;
use Illuminate\Routing\UrlGenerator;
use Illuminate\Support\Facades\Facade;
use Illuminate\View\Engines\EngineResolver;
use Illuminate\View\FileViewFinder;

$app = new Illuminate\Foundation\Application(__DIR__);
$events = new Dispatcher($app);
$router = new Router($events, $app);
$app->instance('router', $router);
Facade::setFacadeApplication($app);
$router->prefix('api')->group(__DIR__ . '/api.php');
$request = Request::capture();
$app->instance('request', $request);
$views = new Illuminate\View\Factory(new EngineResolver(), new FileViewFinder(new Filesystem(), []), $events);
$redirector = new Redirector(new UrlGenerator($router->getRoutes(), $request));
$app->instance(Illuminate\Contracts\Routing\ResponseFactory::class, new ResponseFactory($views, $redirector));
$router->dispatch($request)->send();
