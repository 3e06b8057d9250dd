// Threads that come and go, direct buffers, compression and the class loader; what is printed is compared.
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public class Threads {
    static long work(int seed) throws Exception {
        CRC32 sum = new CRC32();
        for (int round = 0; round < 30; round++) {
            byte[] in = new byte[20000 + seed * 1000 + round * 77];
            for (int i = 0; i < in.length; i++) in[i] = (byte) (i * seed % 251 + i / 97);
            Deflater deflater = new Deflater(1 + round % 9);
            deflater.setInput(in);
            deflater.finish();
            byte[] packed = new byte[in.length + 100];
            int len = deflater.deflate(packed);
            deflater.end();
            Inflater inflater = new Inflater();
            inflater.setInput(packed, 0, len);
            byte[] out = new byte[in.length];
            if (inflater.inflate(out) != in.length) throw new IllegalStateException("inflated to something else");
            inflater.end();
            ByteBuffer direct = ByteBuffer.allocateDirect(in.length);
            direct.put(out).flip();
            sum.update(direct);
        }
        return sum.getValue();
    }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> sums = new ArrayList<>();
        for (int seed = 1; seed <= 24; seed++) {
            final int mine = seed;
            sums.add(pool.submit((Callable<Long>) () -> work(mine)));
        }
        for (Future<Long> sum : sums) System.out.println(sum.get());
        pool.shutdown();
        for (int round = 0; round < 100; round++) {
            Thread[] threads = new Thread[8];
            for (int i = 0; i < threads.length; i++) (threads[i] = new Thread(() -> ByteBuffer.allocateDirect(5000).putInt(1))).start();
            for (Thread thread : threads) thread.join();
        }
        System.gc();
        System.out.println("done");
    }
}
